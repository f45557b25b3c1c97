"""A live run on Ray: one thread feeds the shufflers, whoever iterates gets the matches from the sinks as they come."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pyarrow as pa

from actors.group import Limits
from cluster.deploy.deployment import Deployment
from cluster.feeding import TraceBlocks
from cluster.live import NewMatches
from cluster.options import RayOptions
from cluster.ray_runtime import RayRun, run_report
from cluster.session import Session
from decopa.planning.plan import Plan
from decopa.planning.validate import check_structure
from decopa.query.binding import bind
from shuffler.exchange.codecs import needed_attributes
from shuffler.routing.table import NOTHING_YET
from shuffler.routing.topology import Topology
from shuffler.source.stopping import StreamStopped
from shuffler.source.trace import TraceSource

#: How long a sink waits for matches before it is asked again; also how soon a failure of the feeding thread is noticed.
PATIENCE_S = 0.2
#: How long to wait for the feeding thread when nobody wants the rest.
_LEAVE_S = 5.0


class RayLive:
    """Runs every query of a plan over a live stream, on the Ray that this program is connected to."""

    def __init__(self, plan: Plan, source: TraceSource, *, limits: Limits, options: RayOptions) -> None:
        check_structure(plan)
        self.topology = Topology(plan, options.shufflers, sinks=options.sinks)
        self._stopped = threading.Event()
        self._source = TraceBlocks(source, stopped=self._stopped, portions=True)
        self._limits, self._options = limits, options
        schema = source.format.schema
        self._attributes = needed_attributes([bind(part.query, schema) for part in plan.parts], schema)
        self._failure: BaseException | None = None
        self._fed = threading.Event()
        self._session: Session | None = None
        #: Whether the run was stopped before its stream ended.
        self.stopped = False
        #: What the actors did, once the run is over.
        self.report: RayRun | None = None

    @property
    def events(self) -> int:
        """Events that were fed so far."""
        return 0 if self._session is None else self._session.events

    def stop(self) -> None:
        """Asks the stream to stop; may be called from any thread."""
        self._stopped.set()

    def live(self) -> Iterator[NewMatches]:
        """Hands out matches as soon as they are certain, until the stream ends or is asked to stop."""
        with Deployment(self.topology, self._source.format, self._limits, self._options) as deployment:
            self._session = session = Session(deployment)
            session.await_actors()
            nothing = session.take()
            started = time.perf_counter()
            feeder = self._start_feeding(session)
            try:
                yield from self._collected(deployment, nothing)
                tables = session.take()
                if any(table.num_rows for table in tables):
                    yield NewMatches(tables, (NOTHING_YET,) * len(tables))
                self.report = run_report(deployment, session, time.perf_counter() - started)
            finally:
                self._leave(feeder)

    def _start_feeding(self, session: Session) -> threading.Thread:
        feeder = threading.Thread(target=self._feed, args=(session,), name="decopa-feeder", daemon=True)
        feeder.start()
        return feeder

    def _leave(self, feeder: threading.Thread) -> None:
        self._stopped.set()
        feeder.join(_LEAVE_S)

    def _collected(self, deployment: Deployment, nothing: tuple[pa.Table, ...]) -> Iterator[NewMatches]:
        """Asks all sinks at once and waits for the first that answers, until everything has been fed."""
        parts = sorted(deployment.topology.sink_of)
        place_of = {part: place for place, part in enumerate(parts)}
        finals = [NOTHING_YET] * len(parts)
        asked = {sink.arriving.remote(PATIENCE_S): name for name, sink in deployment.sinks.items()}
        while asked:
            call = deployment.first_of(list(asked), PATIENCE_S)
            self._raise_failure()
            if call is None:
                continue
            name = asked.pop(call)
            found, told = deployment.result(call, name)
            for part, final_us in zip(deployment.topology.sink_parts[name], told, strict=True):
                finals[place_of[part]] = final_us
            if not self._fed.is_set():
                asked[deployment.sinks[name].arriving.remote(PATIENCE_S)] = name
            if found:
                tables = list(nothing)
                for part, table in found.items():
                    tables[place_of[part]] = table
                yield NewMatches(tuple(tables), tuple(finals))
        self._raise_failure()

    def _feed(self, session: Session) -> None:
        try:
            try:
                for block in self._source.feed_blocks(self._attributes):
                    if self._stopped.is_set():
                        raise StreamStopped
                    if block is None:
                        session.pause()
                    else:
                        session.feed(block)
                session.finish()
            except StreamStopped:
                self.stopped = True
                self._stop_feeding(session)
        except BaseException as err:
            self._failure = err
        finally:
            self._fed.set()

    def _stop_feeding(self, session: Session) -> None:
        """What was fed is worked on; what is open stays open."""
        session.settle()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
