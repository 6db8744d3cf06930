import java.io.Serializable;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.streaming.api.functions.windowing.AllWindowFunction;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.functions.windowing.WindowFunction;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

/** The aggregates, and the results that they become. */
final class Aggregates {
    /** One result: in q7 `key` is the auction, `count` the bidder and `sum` the price; in w5 `max` is the end of the session. */
    public static final class Result implements Serializable {
        public long window, key, count;
        public double sum, min, max, p50, p99;
    }

    public static final class Summary implements Serializable {
        public long count;
        public double sum, min = Double.POSITIVE_INFINITY, max = Double.NEGATIVE_INFINITY, p50, p99;
    }

    public static final class Four implements AggregateFunction<Event, Summary, Summary> {
        public Summary createAccumulator() { return new Summary(); }
        public Summary getResult(Summary summary) { return summary; }

        public Summary add(Event event, Summary summary) {
            summary.count++;
            summary.sum += event.value;
            if (event.value < summary.min) summary.min = event.value;
            if (event.value > summary.max) summary.max = event.value;
            return summary;
        }

        public Summary merge(Summary a, Summary b) {
            a.count += b.count;
            a.sum += b.sum;
            a.min = Math.min(a.min, b.min);
            a.max = Math.max(a.max, b.max);
            return a;
        }
    }

    public static final class CountAndSum implements AggregateFunction<Event, Summary, Summary> {
        public Summary createAccumulator() { return new Summary(); }
        public Summary getResult(Summary summary) { return summary; }

        public Summary add(Event event, Summary summary) {
            summary.count++;
            summary.sum += event.value;
            return summary;
        }

        public Summary merge(Summary a, Summary b) {
            a.count += b.count;
            a.sum += b.sum;
            return a;
        }
    }

    /** A histogram with buckets of 2 %: the cheapest quantile sketch that can be merged. */
    public static final class Histogram implements Serializable {
        public long count;
        public double sum;
        public int[] buckets = new int[1024];

        double quantile(double q) {
            double wanted = q * count;
            long seen = 0;
            for (int bucket = 0; bucket < buckets.length; bucket++) {
                seen += buckets[bucket];
                if (seen >= wanted) return Math.exp((bucket - 256 + 0.5) / 50.0);
            }
            return Double.NaN;
        }
    }

    public static final class Quantiles implements AggregateFunction<Event, Histogram, Summary> {
        public Histogram createAccumulator() { return new Histogram(); }

        public Histogram add(Event event, Histogram histogram) {
            histogram.count++;
            histogram.sum += event.value;
            int bucket = (int) Math.floor(Math.log(event.value) * 50.0) + 256;
            histogram.buckets[Math.max(0, Math.min(bucket, 1023))]++;
            return histogram;
        }

        public Summary getResult(Histogram histogram) {
            Summary summary = new Summary();
            summary.count = histogram.count;
            summary.sum = histogram.sum;
            summary.p50 = histogram.quantile(0.5);
            summary.p99 = histogram.quantile(0.99);
            return summary;
        }

        public Histogram merge(Histogram a, Histogram b) {
            a.count += b.count;
            a.sum += b.sum;
            for (int i = 0; i < a.buckets.length; i++) a.buckets[i] += b.buckets[i];
            return a;
        }
    }

    public static final class HighestBid implements AggregateFunction<Event, Event, Event> {
        public Event createAccumulator() {
            Event none = new Event();
            none.value = -1;
            return none;
        }

        public Event add(Event event, Event best) {
            if (event.value > best.value) best.set(event);
            return best;
        }

        public Event getResult(Event best) { return best; }
        public Event merge(Event a, Event b) { return a.value >= b.value ? a : b; }
    }

    public static final class Emit implements WindowFunction<Summary, Result, Long, TimeWindow> {
        public void apply(Long key, TimeWindow window, Iterable<Summary> in, Collector<Result> out) {
            for (Summary summary : in) {
                Result result = new Result();
                result.window = window.getStart();
                result.key = key;
                result.count = summary.count;
                result.sum = summary.sum;
                result.min = summary.min;
                result.max = summary.max;
                result.p50 = summary.p50;
                result.p99 = summary.p99;
                out.collect(result);
            }
        }
    }

    public static final class EmitSession implements WindowFunction<Summary, Result, Long, TimeWindow> {
        public void apply(Long key, TimeWindow window, Iterable<Summary> in, Collector<Result> out) {
            for (Summary summary : in) {
                Result result = new Result();
                result.window = window.getStart();
                result.max = window.getEnd();
                result.key = key;
                result.count = summary.count;
                result.sum = summary.sum;
                out.collect(result);
            }
        }
    }

    public static final class EmitBid implements AllWindowFunction<Event, Result, TimeWindow> {
        public void apply(TimeWindow window, Iterable<Event> in, Collector<Result> out) {
            for (Event bid : in) {
                Result result = new Result();
                result.window = window.getStart();
                result.key = bid.key;
                result.count = bid.extra;
                result.sum = bid.value;
                out.collect(result);
            }
        }
    }

    /** The results with the highest count of a window. */
    public static final class Top extends ProcessWindowFunction<Result, Result, Long, TimeWindow> {
        public void process(Long key, Context context, Iterable<Result> in, Collector<Result> out) {
            long top = 0;
            for (Result result : in) top = Math.max(top, result.count);
            for (Result result : in) if (result.count == top) out.collect(result);
        }
    }
}
