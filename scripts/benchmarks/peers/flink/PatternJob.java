import java.io.BufferedReader;
import java.io.FileInputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLongArray;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/**
 * FlinkCEP on one trace: events follow by followedByAny, followedBy or next, event time, parallelism 1. Several patterns
 * are as many operators behind one source. Arguments: a properties file with
 *
 * <pre>
 * trace       CSV without header: time, type index, values
 * patterns    how many there are; the next three are given for each, the first one's as positions.0
 * positions   names in order, as in a,b,c
 * types       their type indexes, as in 0,1,2
 * comparisons earlier:value OP later:value, separated by semicolons, as in a:0 &lt; b:0;b:0 &lt; c:0
 * window      in the unit of the times, inclusive
 * following   any, next or contiguous: followedByAny, followedBy or next
 * key         index of a value that all events of a match share, or -1
 * limit       seconds after which no more events are emitted
 * warm_up     the same for a first run whose figures are not used
 * </pre>
 *
 * Prints one line of JSON. Seconds run from the first event to the end of the job: starting the JVM, reading the trace
 * and deploying are not in them.
 */
public final class PatternJob {
    private static volatile AtomicLongArray matches;

    private PatternJob() {}

    public static void main(String[] arguments) {
        // The local cluster's threads would keep a process alive whose main program has ended, well or not.
        int status = 1;
        try {
            measure(arguments[0]);
            status = 0;
        } catch (Throwable problem) {
            problem.printStackTrace();
        } finally {
            System.out.flush();
            Runtime.getRuntime().halt(status);
        }
    }

    private static void measure(String jobFile) throws Exception {
        Properties job = new Properties();
        try (FileInputStream file = new FileInputStream(jobFile)) {
            job.load(file);
        }
        Replay.trace = readTrace(Path.of(job.getProperty("trace")));
        run(job, Double.parseDouble(job.getProperty("warm_up")));
        double seconds = run(job, Double.parseDouble(job.getProperty("limit")));
        long total = 0;
        for (int number = 0; number < matches.length(); number++) {
            total += matches.get(number);
        }
        System.out.println("{\"matches\": " + total + ", \"events\": " + Replay.emitted + ", \"seconds\": " + seconds
                + ", \"by_pattern\": " + matches + "}");
    }

    private static double run(Properties job, double limitSeconds) throws Exception {
        Replay.limitNanos = (long) (limitSeconds * 1e9);
        int patterns = Integer.parseInt(job.getProperty("patterns"));
        matches = new AtomicLongArray(patterns);
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(1, settings());
        environment.getConfig().enableObjectReuse();
        DataStream<Event> events = environment.addSource(new Replay(), Types.POJO(Event.class));
        int key = Integer.parseInt(job.getProperty("key"));
        if (key >= 0) {
            events = events.keyBy(event -> event.values[key]);
        }
        for (int number = 0; number < patterns; number++) {
            CEP.pattern(events, pattern(job, number))
                    .inEventTime()
                    .process(new Collect(number, job.getProperty("positions." + number).split(",")))
                    .sinkTo(new DiscardingSink<>());
        }
        environment.execute("peer");
        return (System.nanoTime() - Replay.began) / 1e9;
    }

    /** Small network buffers: few events wait between source and operator when the time is over. */
    private static Configuration settings() {
        Map<String, String> settings = new HashMap<>();
        settings.put("taskmanager.memory.segment-size", "4kb");
        settings.put("taskmanager.network.memory.buffers-per-channel", "2");
        settings.put("taskmanager.network.memory.floating-buffers-per-gate", "2");
        settings.put("taskmanager.network.memory.max-buffers-per-channel", "2");
        return Configuration.fromMap(settings);
    }

    private static Pattern<Event, ?> pattern(Properties job, int number) {
        String[] names = job.getProperty("positions." + number).split(",");
        String[] types = job.getProperty("types." + number).split(",");
        Map<String, Step> steps = new HashMap<>();
        for (int place = 0; place < names.length; place++) {
            steps.put(names[place], new Step(Integer.parseInt(types[place]), place == 0 ? null : names[place - 1]));
        }
        for (String text : job.getProperty("comparisons." + number).split(";")) {
            if (text.isBlank()) {
                continue;
            }
            String[] words = text.trim().split("[ :]"); // earlier value OP later value
            int earlierValue = Integer.parseInt(words[1]);
            steps.get(words[3]).compare(words[0], earlierValue, words[2], Integer.parseInt(words[4]));
        }
        Pattern<Event, Event> pattern = Pattern.<Event>begin(names[0]).where(steps.get(names[0]));
        for (int place = 1; place < names.length; place++) {
            pattern = following(pattern, names[place], job).where(steps.get(names[place]));
        }
        // Times are handed to Flink as its milliseconds; its window excludes its end, ours includes it.
        return pattern.within(Duration.ofMillis(Long.parseLong(job.getProperty("window")) + 1));
    }

    private static Pattern<Event, Event> following(Pattern<Event, Event> pattern, String name, Properties job) {
        switch (job.getProperty("following")) {
            case "any":
                return pattern.followedByAny(name);
            case "next":
                return pattern.followedBy(name);
            case "contiguous":
                return pattern.next(name);
            default:
                throw new IllegalArgumentException("unknown way to follow " + job.getProperty("following"));
        }
    }

    private static List<Event> readTrace(Path path) throws Exception {
        List<Event> trace = new ArrayList<>();
        try (BufferedReader lines = Files.newBufferedReader(path)) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] cells = line.split(",");
                double[] values = new double[cells.length - 2];
                for (int place = 0; place < values.length; place++) {
                    values[place] = Double.parseDouble(cells[place + 2]);
                }
                trace.add(new Event(trace.size(), Long.parseLong(cells[0]), Integer.parseInt(cells[1]), values));
            }
        }
        return trace;
    }

    /** Counts the matches and hands them on as row numbers. */
    private static final class Collect extends PatternProcessFunction<Event, long[]> {
        private final int number;
        private final String[] names;

        Collect(int number, String[] names) {
            this.number = number;
            this.names = names;
        }

        @Override
        public void processMatch(Map<String, List<Event>> match, Context context, Collector<long[]> found) {
            long[] rows = new long[names.length];
            for (int place = 0; place < names.length; place++) {
                rows[place] = match.get(names[place]).get(0).sequence;
            }
            matches.incrementAndGet(number);
            found.collect(rows);
        }
    }
}
