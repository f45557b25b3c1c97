/** One row of the trace; `type` is the index of its type in the job's list, -1 for types that no position asks for. */
public class Event {
    public long sequence;
    public long ts;
    public int type;
    public double[] values;

    public Event() {} // Flink's serializer makes events by it

    Event(long sequence, long ts, int type, double[] values) {
        this.sequence = sequence;
        this.ts = ts;
        this.type = type;
        this.values = values;
    }
}
