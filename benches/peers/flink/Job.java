import java.io.BufferedWriter;
import java.io.FileWriter;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.function.ObjIntConsumer;
import org.apache.flink.api.common.functions.FilterFunction;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.util.EnvironmentInformation;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.DataStreamUtils;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.legacy.RichSinkFunction;
import org.apache.flink.streaming.api.functions.source.legacy.RichParallelSourceFunction;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.api.windowing.assigners.EventTimeSessionWindows;
import org.apache.flink.streaming.api.windowing.assigners.SlidingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;

/**
 * A workload on Flink in one JVM. Job WORKLOAD DATA_DIR PARALLELISM FORM RUNS BOUND_MS [RESULT.csv] prints one line of JSON.
 *
 * FORM: `keyby`, what a user would write; `reinterpret`, no shuffle and no serialization (parallelism 1 only); `sql`.
 * The clock runs from the first row that the source emits to the close of the last sink. The first run warms the JVM up
 * and is not counted, unless it is the only one.
 */
public class Job {
    static final int WATERMARK_EVERY = 1000;
    static long bound;
    static volatile long started, ended;
    static PrintWriter output;

    /** Emits the rows of a subtask, and a watermark every 1,000 rows. */
    static <T> void emitRows(
            RichParallelSourceFunction<T> source, RichParallelSourceFunction.SourceContext<T> context, T row, ObjIntConsumer<T> fill) {
        var task = source.getRuntimeContext().getTaskInfo();
        int step = task.getNumberOfParallelSubtasks();
        synchronized (Job.class) {
            if (started == 0) started = System.nanoTime();
        }
        long highest = Long.MIN_VALUE;
        for (int i = task.getIndexOfThisSubtask(); i < Data.ts.length; ) {
            synchronized (context.getCheckpointLock()) {
                for (int n = 0; n < WATERMARK_EVERY && i < Data.ts.length; n++, i += step) {
                    fill.accept(row, i);
                    context.collectWithTimestamp(row, Data.ts[i]);
                    highest = Math.max(highest, Data.ts[i]);
                }
                context.emitWatermark(new Watermark(highest - bound - 1));
            }
        }
    }

    public static final class Source extends RichParallelSourceFunction<Event> {
        public void run(SourceContext<Event> context) { emitRows(this, context, new Event(), Data::fill); }
        public void cancel() {}
    }

    public static final class Sink extends RichSinkFunction<Aggregates.Result> {
        public void invoke(Aggregates.Result result, Context context) { write(result); }
        public void close() { ended = System.nanoTime(); }
    }

    static void write(Aggregates.Result r) {
        if (output == null) return;
        synchronized (output) {
            output.println(r.window + "," + r.key + "," + r.count + "," + r.sum + "," + r.min + "," + r.max + "," + r.p50 + "," + r.p99);
        }
    }

    public static final class Key implements KeySelector<Event, Long> {
        public Long getKey(Event event) { return event.key; }
    }

    public static final class Window implements KeySelector<Aggregates.Result, Long> {
        public Long getKey(Aggregates.Result result) { return result.window; }
    }

    public static final class IsView implements FilterFunction<Event> {
        public boolean filter(Event event) { return event.extra == 0; }
    }

    public static final class Join implements MapFunction<Event, Event> {
        public Event map(Event event) {
            event.key = Data.campaign[(int) event.key];
            return event;
        }
    }

    static KeyedStream<Event, Long> keyed(DataStream<Event> events, String form) {
        return form.equals("reinterpret")
                ? DataStreamUtils.reinterpretAsKeyedStream(events, new Key(), Types.LONG)
                : events.keyBy(new Key(), Types.LONG);
    }

    static DataStream<Aggregates.Result> results(DataStream<Event> events, String workload, String form) {
        var emit = new Aggregates.Emit();
        var ten = TumblingEventTimeWindows.of(Duration.ofSeconds(10));
        switch (workload) {
            case "w1":
                var minute = TumblingEventTimeWindows.of(Duration.ofMinutes(1));
                return keyed(events, form).window(minute).aggregate(new Aggregates.Four(), emit);
            case "w2":
                var five = SlidingEventTimeWindows.of(Duration.ofMinutes(5), Duration.ofMinutes(1));
                return keyed(events, form).window(five).aggregate(new Aggregates.Quantiles(), emit);
            case "w3":
                return keyed(events, form).window(ten).aggregate(new Aggregates.CountAndSum(), emit);
            case "w5":
                var sessions = EventTimeSessionWindows.withGap(Duration.ofSeconds(30));
                return keyed(events, form).window(sessions).aggregate(new Aggregates.CountAndSum(), new Aggregates.EmitSession());
            case "q5":
                var hot = SlidingEventTimeWindows.of(Duration.ofSeconds(10), Duration.ofSeconds(2));
                var counts = keyed(events, form).window(hot).aggregate(new Aggregates.CountAndSum(), emit);
                var same = TumblingEventTimeWindows.of(Duration.ofSeconds(2));
                return counts.keyBy(new Window(), Types.LONG).window(same).process(new Aggregates.Top());
            case "q7":
                return events.windowAll(ten).aggregate(new Aggregates.HighestBid(), new Aggregates.EmitBid());
            case "ysb":
                var views = events.filter(new IsView()).map(new Join()).returns(new Event.Type());
                return keyed(views, form).window(ten).aggregate(new Aggregates.CountAndSum(), emit);
            default:
                throw new IllegalArgumentException("no DataStream form of " + workload);
        }
    }

    static double nanosPerRow(String workload, int parallelism, String form) throws Exception {
        started = ended = 0;
        Configuration config = new Configuration();
        config.setString("taskmanager.memory.network.min", "256mb");
        config.setString("taskmanager.memory.network.max", "256mb");
        config.setString("taskmanager.memory.managed.size", "1024mb");
        config.setString("taskmanager.numberOfTaskSlots", Integer.toString(parallelism));
        config.setString("rest.bind-port", "0");
        var env = StreamExecutionEnvironment.createLocalEnvironment(parallelism, config);
        env.getConfig().enableObjectReuse();
        if (form.equals("sql")) {
            SlidingSql.define(env);
        } else {
            results(env.addSource(new Source(), "rows", new Event.Type()), workload, form).addSink(new Sink());
        }
        env.execute(workload);
        return (double) (ended - started) / Data.ts.length;
    }

    static long peakRss() throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmHWM")) return Long.parseLong(line.replaceAll("\\D", "")) * 1024;
        }
        return 0;
    }

    static String describe(String form, int parallelism) {
        String what = switch (form) {
            case "sql" -> "SQL, window table function";
            case "reinterpret" -> "DataStream, reinterpretAsKeyedStream (no shuffle)";
            case "windowall" -> "DataStream, windowAll";
            default -> "DataStream, keyBy";
        };
        return what + ", parallelism " + parallelism;
    }

    public static void main(String[] args) throws Exception {
        String workload = args[0], form = args[3];
        int parallelism = Integer.parseInt(args[2]), runs = Integer.parseInt(args[4]);
        bound = Long.parseLong(args[5]);
        Data.load(workload, Path.of(args[1]));
        if (args.length > 6) {
            output = new PrintWriter(new BufferedWriter(new FileWriter(args[6])));
            output.println("win,key,count,sum,min,max,p50,p99");
        }
        List<Double> samples = new ArrayList<>();
        for (int run = 0; run < runs; run++) samples.add(nanosPerRow(workload, parallelism, form));
        if (runs > 1) samples.remove(0);
        if (output != null) output.close();
        System.out.printf(
                Locale.ROOT,
                "{\"peer\": \"Flink\", \"version\": \"%s\", \"form\": \"%s\", \"workload\": \"%s\", \"rows\": %d, "
                        + "\"ns_per_row\": %s, \"peak_rss_bytes\": %d}%n",
                EnvironmentInformation.getVersion(), describe(form, parallelism), workload, Data.ts.length, samples, peakRss());
        System.exit(0);
    }
}
