import java.util.List;
import org.apache.flink.streaming.api.functions.source.legacy.SourceFunction;
import org.apache.flink.streaming.api.watermark.Watermark;

/**
 * Emits the trace as fast as it is taken, until it ends or the time is over. What was emitted is then still matched, so
 * that the matches are exactly those of the first `emitted` events.
 */
public class Replay implements SourceFunction<Event> {
    private static final int EVENTS_PER_WATERMARK = 100;

    // Source, operator and main program live in one process: Flink would copy the events if they were fields.
    static volatile List<Event> trace;
    static volatile long limitNanos;
    static volatile long began;
    static volatile long emitted;

    private volatile boolean cancelled;

    @Override
    public void run(SourceContext<Event> context) {
        began = System.nanoTime();
        long count = 0;
        for (Event event : trace) {
            if (cancelled) {
                return;
            }
            context.collectWithTimestamp(event, event.ts);
            count++;
            if (count % EVENTS_PER_WATERMARK == 0) {
                // An event of the same time may follow.
                context.emitWatermark(new Watermark(event.ts - 1));
                if (System.nanoTime() - began > limitNanos) {
                    break;
                }
            }
        }
        emitted = count;
    }

    @Override
    public void cancel() {
        cancelled = true;
    }
}
