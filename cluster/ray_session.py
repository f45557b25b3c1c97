"""A Ray to run on: the one this program is connected to, the cluster that was named, or one started here.

A Ray that is started here listens on loopback only, and is given as many logical CPUs as the plan has units: they are
places for actors, not promises of speed. Every private call to Ray lives in `cluster/`, with its reason.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import AuthenticationError

from cluster.java import prepare_java
from decopa.errors import DeployError

#: Messages travel in the calls themselves instead of through the object store, which carries three times fewer of them.
#: Actors are not "nice": Ray would let every other program of the machine go first, which shows in the latency.
#: On a cluster that others start, RAY_max_direct_call_object_size and RAY_worker_niceness do the same.
_SETTINGS = {"max_direct_call_object_size": 4 * 2**20, "worker_niceness": 0}
#: How long to try to reach a cluster.
_REACH_S = 5.0


@contextmanager
def ray_session(*, address: str | None = None, cpus: int = 1, dashboard: bool = True) -> Iterator[str | None]:
    """Connects to Ray or starts one, and yields the dashboard's address; what was started here is stopped again.

    `address` names a cluster ("auto" for the one on this machine); RAY_ADDRESS does the same. Without either a Ray is
    started here, unless this program has one already.
    """
    if ray.is_initialized():
        yield _dashboard()
        return
    if address is None and not os.environ.get("RAY_ADDRESS"):
        start_ray(cpus, dashboard=dashboard)
    else:
        _connect(address)
    try:
        yield _dashboard()
    finally:
        ray.shutdown()


def start_ray(cpus: int, *, dashboard: bool = True) -> None:
    """Starts a Ray with places for that many actors."""
    prepare_java()  # Ray's processes hand its settings on to Java workers, so they come first
    _find_tools()
    # On a busy machine the dashboard may be too slow for Ray's patience; without it Ray starts sooner.
    for with_dashboard in [True, False] if dashboard else [False, False]:
        try:
            with _quietly(), _on_loopback(), _own_signals():
                ray.init(
                    address="local",  # or Ray would look for one that someone else has started on this machine
                    num_cpus=max(cpus, os.cpu_count() or 1),
                    include_dashboard=with_dashboard,
                    dashboard_host="127.0.0.1",
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    _system_config=_SETTINGS,
                )
            return
        except Exception as err:  # Ray raises plain Exception when one of its processes does not come up in time
            ray.shutdown()
            problem = _first_line(err)
    raise DeployError(
        f"Ray does not start: {problem}; look at its logs in /tmp/ray/session_latest/logs, or use --runtime local"
    )


def is_started_here() -> bool:
    """Whether this program has started the Ray that it is connected to."""
    node: Any = ray._private.worker._global_node
    return node is not None and bool(node.is_head())


def stop_ray() -> None:
    """Ends the Ray that was started here, or the connection to a cluster."""
    ray.shutdown()


def _find_tools() -> None:
    """Ray's dashboard looks for py-spy, which makes its flame graphs, on the PATH; it lies beside this Python."""
    beside, path = str(Path(sys.executable).parent), os.environ.get("PATH", "")
    if beside not in path.split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join(filter(None, [path, beside]))


def _connect(address: str | None) -> None:
    named = address or os.environ["RAY_ADDRESS"]
    _check_reachable(named)
    _check_is_node(named)
    if _demands_token(named):
        _show_token(named)
    # Ray would turn the address into that of a network card, where a Ray that decopa has started does not listen.
    with _quietly(), _own_signals(), _on_loopback() if _is_loopback(named) else nullcontext():
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except AuthenticationError as err:
            raise DeployError(
                f"the Ray cluster at '{named}' refuses this program's token: {_first_line(err)}; copy "
                "~/.ray/auth_token from the machine that started the cluster (mode 600), or set RAY_AUTH_TOKEN_PATH"
            ) from err
        except (ConnectionError, ValueError, RuntimeError) as err:
            raise DeployError(
                f"no Ray cluster answers at '{named}': {_first_line(err)}; check the address and the token "
                "(~/.ray/auth_token), start one with `ray start --head` or `decopa cluster up`, or leave out --address "
                "to start one here"
            ) from err


def _first_line(err: Exception) -> str:
    return next((line.strip() for line in str(err).splitlines() if line.strip()), type(err).__name__)


def _demands_token(address: str) -> bool:
    """Whether the cluster refuses a call without a token. A program that has a token and a cluster that wants none do
    not get along: Ray then takes the program for dead, because it refuses the cluster's calls."""
    if address == "auto" or address.startswith("ray://"):
        return True
    import grpc  # type: ignore[import-untyped]

    with grpc.insecure_channel(address) as channel:
        ask = channel.unary_unary("/ray.rpc.NodeInfoGcsService/GetClusterId")
        try:
            ask(b"", timeout=_REACH_S)
        except grpc.RpcError as err:
            return bool(err.code() == grpc.StatusCode.UNAUTHENTICATED)
    return False


def _show_token(address: str) -> None:
    """Lets Ray show the token that lies on this machine; by itself Ray does so only for a cluster that it finds."""
    if "RAY_AUTH_MODE" in os.environ:
        return
    token = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or "~/.ray/auth_token").expanduser()
    if "RAY_AUTH_TOKEN" not in os.environ and not token.is_file():
        if address == "auto" or address.startswith("ray://"):
            return
        raise DeployError(
            f"the Ray cluster at '{address}' wants a token, and there is none in {token}; copy ~/.ray/auth_token from "
            "the machine that started the cluster (mode 600), or set RAY_AUTH_TOKEN_PATH"
        )
    os.environ["RAY_AUTH_MODE"] = "token"
    settings: Any = ray._raylet  # Ray may have read its settings already, and has no public call to read them again
    settings.Config.initialize("")


def _check_is_node(address: str) -> None:
    """Refuses at once a driver on a machine that is no node of the cluster, which Ray would try to be for a minute."""
    if address == "auto" or address.startswith("ray://"):
        return
    host, _, port = address.rpartition(":")
    here = ray._private.services.find_gcs_addresses()  # type: ignore[no-untyped-call]
    if not here & {address, f"{_resolved(host)}:{port}"}:
        raise DeployError(
            f"this machine is no node of the Ray cluster at '{address}', and a run must begin on one; log in to its "
            "head, or use `decopa submit --cluster FILE run ...`, which does not need to be a node"
        )


def _is_loopback(address: str) -> bool:
    return _resolved(address.rpartition(":")[0]).startswith("127.")


def _resolved(host: str) -> str:
    try:
        return socket.gethostbyname(host)
    except OSError:
        return host


def _check_reachable(address: str) -> None:
    """Refuses at once what Ray would try to reach for minutes."""
    if address == "auto":
        if not ray._private.services.find_gcs_addresses():  # type: ignore[no-untyped-call]
            raise DeployError(
                "no Ray cluster runs on this machine; start one with `ray start --head`, or leave out --address to "
                "start one for this run"
            )
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise DeployError(
            f"'{address}' is no address of a Ray cluster; write host:port, or auto for one on this machine"
        )
    try:
        socket.create_connection((host, int(port)), timeout=_REACH_S).close()
    except OSError as err:
        raise DeployError(
            f"no Ray cluster answers at '{address}': {err.strerror or err}; check the address, start one with "
            "`ray start --head` or `ray up`, or leave out --address to start one here"
        ) from err


@contextmanager
def _on_loopback() -> Iterator[None]:
    """A Ray that starts inside listens on loopback with all its ports, as it does by default on a Mac.

    Elsewhere it takes the address of a network card, and `_node_ip_address="127.0.0.1"` is turned into that, too. The
    variable is for Ray's processes; this one has read it already, when it imported Ray.
    """
    settings: Any = ray._private.ray_constants
    name = settings.ENABLE_RAY_CLUSTERS_ENV_VAR
    before, settings.ENABLE_RAY_CLUSTER = (settings.ENABLE_RAY_CLUSTER, os.environ.get(name)), False
    os.environ[name] = "0"
    try:
        yield
    finally:
        settings.ENABLE_RAY_CLUSTER, variable = before
        if variable is None:
            del os.environ[name]
        else:
            os.environ[name] = variable


@contextmanager
def _own_signals() -> Iterator[None]:
    """Ray takes SIGTERM for itself when it starts; a program that handles the signal has it back afterwards."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if callable(before):
            signal.signal(signal.SIGTERM, before)


@contextmanager
def _quietly() -> Iterator[None]:
    """What Ray and its dependencies warn of while they start is not the user's to mend."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _dashboard() -> str | None:
    """The dashboard's address; Ray's public context tells it only to whoever called `init`."""
    url = ray._private.worker.get_dashboard_url()  # type: ignore[no-untyped-call]
    return f"http://{url}" if url else None
