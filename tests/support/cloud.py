"""moto's EC2 and IAM as a server that machines of the tests can reach, with a quota of instances.

    python -m tests.support.cloud --host 10.77.0.254 --port 5555 --quota-file quota

Beyond as many running instances as the file says, RunInstances is answered as Amazon answers it.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from moto.ec2.models import ec2_backends
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

_ACCOUNT, _REGION = "123456789012", "eu-central-1"
_SAYS = (
    "You have requested more vCPU capacity than your current vCPU limit of {quota} allows for the instance bucket that "
    "the specified instance type belongs to."
)
_REFUSED = f"""<?xml version="1.0" encoding="UTF-8"?>
<Response><Errors><Error><Code>VcpuLimitExceeded</Code><Message>{_SAYS}</Message></Error></Errors>
<RequestID>00000000-0000-0000-0000-000000000000</RequestID></Response>"""


class WithQuota:
    """A web application before moto's own."""

    def __init__(self, moto: Any, quota_file: Path) -> None:
        self._moto, self._quota_file = moto, quota_file

    def __call__(self, request: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        body = request["wsgi.input"].read(int(request.get("CONTENT_LENGTH") or 0))
        request["wsgi.input"] = io.BytesIO(body)
        asked = parse_qs(body.decode(errors="replace"))
        if asked.get("Action") == ["RunInstances"]:
            quota = int(self._quota_file.read_text())
            running = [
                one for one in ec2_backends[_ACCOUNT][_REGION].all_instances() if one.state in ("pending", "running")
            ]
            if len(running) + int(asked["MinCount"][0]) > quota:
                start("400 Bad Request", [("Content-Type", "text/xml")])
                return [_REFUSED.format(quota=quota).encode()]
        answer: Iterable[bytes] = self._moto(request, start)
        return answer


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--quota-file", type=Path, required=True)
    args = parser.parse_args()
    moto = DomainDispatcherApplication(create_backend_app)
    run_simple(args.host, args.port, WithQuota(moto, args.quota_file), threaded=True)


if __name__ == "__main__":
    main()
