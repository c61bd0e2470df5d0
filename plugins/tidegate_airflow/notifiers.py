"""The notifiers that definitions name, called with an alert: Airflow's own, or functions that take a context."""

import copy
import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from airflow.sdk import BaseNotifier
from airflow.sdk.log import redact

from tidegate.model.errors import UnavailableError, WrongDefinitionError
from tidegate.monitoring.alerts import Alert

_SECONDS = 60.0  # less than a claim holds


def notify(name: str, alert: Alert, context: Mapping[str, Any], seconds: float = _SECONDS) -> None:
    """Call the `module:name` with this context and the alert in it, as `alert`.

    Raises what it raises, WrongDefinitionError if it can't be imported, UnavailableError if it takes longer than
    that many seconds; what it does afterwards isn't known.
    """
    told = {**context, "alert": without_secrets(alert)}
    _within(seconds, name, lambda: _call(name, told))


def try_import(name: str, seconds: float = _SECONDS) -> None:
    """Import the `module:name` that is to be told one day. Raises as `notify` does."""
    _within(seconds, name, lambda: _imported(name))


def without_secrets(alert: Alert) -> Alert:
    """The alert without the secrets that Airflow knows, whatever an error may have repeated."""
    return replace(
        alert, subject=str(redact(alert.subject)), text=str(redact(alert.text)), reason=str(redact(alert.reason))
    )


def _within(seconds: float, name: str, call: Callable[[], object]) -> None:
    """Make the call in a thread, and wait so long for its end. Raises what it raises."""
    ended: SimpleQueue[BaseException | None] = SimpleQueue()

    def run() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - a notifier may raise anything
            ended.put(error)
        else:
            ended.put(None)

    Thread(target=run, name=f"notifier {name}", daemon=True).start()
    try:
        error = ended.get(timeout=seconds)
    except Empty:
        raise UnavailableError(f"it took longer than {seconds:.0f} s") from None
    if error is not None:
        raise error


def _call(name: str, context: Mapping[str, Any]) -> None:
    notifier = _imported(name)
    returned = _notify(notifier, context) if isinstance(notifier, BaseNotifier) else notifier(context)
    _refuse_awaitable(returned)


def _notify(notifier: BaseNotifier, context: Mapping[str, Any]) -> object:
    """As calling it does, but for what it raises, which Airflow only logs; returns what its `notify` does."""
    rendered = copy.copy(notifier)
    fields = {field: getattr(rendered, field) for field in rendered.template_fields}
    everything: Any = {**context, **fields}
    rendered.render_template_fields(everything)
    returned: object = rendered.notify(everything)
    return returned


def _refuse_awaitable(returned: object) -> None:
    """Raises WrongDefinitionError for what would tell only if somebody awaited it."""
    if inspect.iscoroutine(returned):
        returned.close()
    if inspect.isawaitable(returned):
        raise WrongDefinitionError(
            f"it returned a {type(returned).__name__}, which nobody awaits, and told nobody: write it with def, and "
            "return nothing"
        )


def _imported(name: str) -> Any:
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise WrongDefinitionError(f"it can't be imported ({error}): `airflow tidegate check` tries it") from error
    if isinstance(found, type) or not callable(found):
        raise WrongDefinitionError("it is neither a notifier nor a function: name an instance, as alerts:mail")
    return found
