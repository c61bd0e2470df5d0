"""moto's server of S3's protocol, where to create an object that must not be there is one step, as on every store.

moto looks for the key and stores it afterwards: of two that create it at once both may. Run as a program, this is
`python -m moto.server`.
"""

import threading
from collections.abc import Callable
from typing import Any

from moto.s3.responses import S3Response
from moto.server import main

PROGRAM = __file__
_WRITING = threading.RLock()


def _one_at_a_time(respond: Callable[..., Any]) -> Callable[..., Any]:
    def alone(*given: Any, **named: Any) -> Any:
        with _WRITING:
            return respond(*given, **named)

    return alone


for _name in ("_key_response_put", "_key_response_post"):
    setattr(S3Response, _name, _one_at_a_time(getattr(S3Response, _name)))

if __name__ == "__main__":
    main()
