import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;

/** The columns of the workload, in arrays before the clock starts. */
final class Data {
    static long[] ts, key, bidder, price;
    static double[] value;
    static byte[] eventType;
    static int[] campaign;

    static void load(String workload, Path dir) throws IOException {
        ts = longs(dir, "ts");
        switch (workload) {
            case "w1", "w4" -> { key = widened(dir, "key"); value = doubles(dir, "value"); }
            case "w2" -> { key = widened(dir, "model"); value = doubles(dir, "value"); }
            case "w3", "w5" -> { key = longs(dir, "key"); value = doubles(dir, "value"); }
            case "q5" -> key = longs(dir, "auction");
            case "q7" -> { key = longs(dir, "auction"); bidder = longs(dir, "bidder"); price = longs(dir, "price"); }
            case "ysb" -> {
                key = widened(dir, "ad_id");
                eventType = new byte[ts.length];
                map(dir, "event_type").get(eventType);
                campaign = ints(dir, "campaign_of_ad");
            }
            default -> throw new IllegalArgumentException("no workload " + workload);
        }
    }

    /** Copies a row into a record that is used again and again. */
    static void fill(Event event, int row) {
        event.ts = ts[row];
        event.key = key[row];
        if (value != null) {
            event.value = value[row];
        } else if (price != null) {
            event.value = price[row];
            event.extra = bidder[row];
        } else if (eventType != null) {
            event.extra = eventType[row];
        }
    }

    private static ByteBuffer map(Path dir, String column) throws IOException {
        Path path = dir.resolve(column + ".bin");
        try (FileChannel file = FileChannel.open(path)) {
            return file.map(FileChannel.MapMode.READ_ONLY, 0, Files.size(path)).order(ByteOrder.LITTLE_ENDIAN);
        }
    }

    private static long[] longs(Path dir, String column) throws IOException {
        var buffer = map(dir, column).asLongBuffer();
        long[] array = new long[buffer.remaining()];
        buffer.get(array);
        return array;
    }

    private static double[] doubles(Path dir, String column) throws IOException {
        var buffer = map(dir, column).asDoubleBuffer();
        double[] array = new double[buffer.remaining()];
        buffer.get(array);
        return array;
    }

    private static int[] ints(Path dir, String column) throws IOException {
        var buffer = map(dir, column).asIntBuffer();
        int[] array = new int[buffer.remaining()];
        buffer.get(array);
        return array;
    }

    private static long[] widened(Path dir, String column) throws IOException {
        var buffer = map(dir, column).asIntBuffer();
        long[] array = new long[buffer.remaining()];
        for (int i = 0; i < array.length; i++) array[i] = buffer.get(i);
        return array;
    }
}
