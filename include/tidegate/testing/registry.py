"""A Schema Registry in memory."""

from collections.abc import Sequence

from tidegate.model.errors import UnavailableError
from tidegate.ports import Reference, RegisteredSchema, SchemaType


class MemoryRegistry:
    """The port `SchemaRegistry`: what `register` put there. While `reachable` is false, it doesn't answer."""

    def __init__(self) -> None:
        self.reachable = True
        self.asked: list[int | str] = []
        self._schemas: dict[int, RegisteredSchema] = {}
        self._subjects: dict[str, list[int]] = {}

    def register(self, subject: str, kind: SchemaType, text: str, references: Sequence[Reference] = ()) -> int:
        """Register a version of a subject; the id that it gets, from 1."""
        schema_id = len(self._schemas) + 1
        self._schemas[schema_id] = RegisteredSchema(schema_id, kind, text, tuple(references))
        self._subjects.setdefault(subject, []).append(schema_id)
        return schema_id

    def schema(self, schema_id: int, kind: SchemaType) -> RegisteredSchema | None:  # noqa: ARG002 (the port's)
        """See `tidegate.ports.SchemaRegistry`."""
        self._answer(schema_id)
        return self._schemas.get(schema_id)

    def latest(self, subject: str, kind: SchemaType) -> RegisteredSchema | None:  # noqa: ARG002 (the port's)
        """See `tidegate.ports.SchemaRegistry`."""
        self._answer(subject)
        versions = self._subjects.get(subject)
        return self._schemas[versions[-1]] if versions else None

    def _answer(self, asked: int | str) -> None:
        self.asked.append(asked)
        if not self.reachable:
            raise UnavailableError("the Schema Registry was made unreachable")
