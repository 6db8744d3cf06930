import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.Set;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.legacy.table.connector.source.SourceFunctionProvider;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.legacy.RichSinkFunction;
import org.apache.flink.streaming.api.functions.source.legacy.RichParallelSourceFunction;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.ScanTableSource;
import org.apache.flink.table.connector.source.abilities.SupportsSourceWatermark;
import org.apache.flink.table.data.ArrayData;
import org.apache.flink.table.data.DecimalData;
import org.apache.flink.table.data.MapData;
import org.apache.flink.table.data.RawValueData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;
import org.apache.flink.types.variant.Variant;

/** W4 in Flink SQL, which shares panes between windows where DataStream copies each row into 96. */
public class SlidingSql {
    static void define(StreamExecutionEnvironment env) {
        var tables = StreamTableEnvironment.create(env, EnvironmentSettings.newInstance().inStreamingMode().build());
        tables.getConfig().setLocalTimeZone(ZoneOffset.UTC);
        tables.executeSql(
                "CREATE TABLE events (rt TIMESTAMP_LTZ(3), k BIGINT, v DOUBLE, WATERMARK FOR rt AS SOURCE_WATERMARK())"
                        + " WITH ('connector' = 'arrays')");
        var results = tables.sqlQuery(
                "SELECT window_start, k, COUNT(*), SUM(v), MIN(v), MAX(v)"
                        + " FROM TABLE(HOP(TABLE events, DESCRIPTOR(rt), INTERVAL '15' MINUTE, INTERVAL '24' HOUR))"
                        + " GROUP BY k, window_start, window_end");
        tables.toDataStream(results).addSink(new Sink());
    }

    public static final class Sink extends RichSinkFunction<Row> {
        public void invoke(Row row, Context context) {
            if (Job.output == null) return;
            var result = new Aggregates.Result();
            Object start = row.getField(0);
            result.window = start instanceof Instant instant
                    ? instant.toEpochMilli()
                    : ((LocalDateTime) start).toInstant(ZoneOffset.UTC).toEpochMilli();
            result.key = (Long) row.getField(1);
            result.count = (Long) row.getField(2);
            result.sum = (Double) row.getField(3);
            result.min = (Double) row.getField(4);
            result.max = (Double) row.getField(5);
            Job.write(result);
        }

        public void close() { Job.ended = System.nanoTime(); }
    }

    public static final class Factory implements DynamicTableSourceFactory {
        public String factoryIdentifier() { return "arrays"; }
        public Set<ConfigOption<?>> requiredOptions() { return Set.of(); }
        public Set<ConfigOption<?>> optionalOptions() { return Set.of(); }
        public DynamicTableSource createDynamicTableSource(Context context) { return new Table(); }
    }

    public static final class Table implements ScanTableSource, SupportsSourceWatermark {
        public ChangelogMode getChangelogMode() { return ChangelogMode.insertOnly(); }

        /** Called unbounded: of a bounded source Flink would hold the watermarks back until it ends. */
        public ScanRuntimeProvider getScanRuntimeProvider(ScanContext context) {
            return SourceFunctionProvider.of(new Source(), false);
        }

        public void applySourceWatermark() {}
        public DynamicTableSource copy() { return new Table(); }
        public String asSummaryString() { return "arrays"; }
    }

    public static final class Source extends RichParallelSourceFunction<RowData> {
        public void run(SourceContext<RowData> context) {
            Job.emitRows(this, context, new EventRow(), (row, i) -> Data.fill(((EventRow) row).event, i));
        }

        public void cancel() {}
    }

    /** A row over primitives: nothing is boxed or converted on the way in. */
    public static final class EventRow implements RowData {
        final Event event = new Event();

        public int getArity() { return 3; }
        public RowKind getRowKind() { return RowKind.INSERT; }
        public void setRowKind(RowKind kind) {}
        public boolean isNullAt(int column) { return false; }
        public TimestampData getTimestamp(int column, int precision) { return TimestampData.fromEpochMillis(event.ts); }
        public long getLong(int column) { return event.key; }
        public double getDouble(int column) { return event.value; }

        public boolean getBoolean(int column) { throw new UnsupportedOperationException(); }
        public byte getByte(int column) { throw new UnsupportedOperationException(); }
        public short getShort(int column) { throw new UnsupportedOperationException(); }
        public int getInt(int column) { throw new UnsupportedOperationException(); }
        public float getFloat(int column) { throw new UnsupportedOperationException(); }
        public StringData getString(int column) { throw new UnsupportedOperationException(); }
        public DecimalData getDecimal(int column, int precision, int scale) { throw new UnsupportedOperationException(); }
        public <T> RawValueData<T> getRawValue(int column) { throw new UnsupportedOperationException(); }
        public byte[] getBinary(int column) { throw new UnsupportedOperationException(); }
        public ArrayData getArray(int column) { throw new UnsupportedOperationException(); }
        public MapData getMap(int column) { throw new UnsupportedOperationException(); }
        public RowData getRow(int column, int fields) { throw new UnsupportedOperationException(); }
        public Variant getVariant(int column) { throw new UnsupportedOperationException(); }
    }
}
