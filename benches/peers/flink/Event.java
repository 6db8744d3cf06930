import java.io.IOException;
import java.io.Serializable;
import org.apache.flink.api.common.serialization.SerializerConfig;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeutils.SimpleTypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.base.TypeSerializerSingleton;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/** A row of any workload, with a serializer of 32 fixed bytes: the cheapest that Flink can be given. */
public final class Event implements Serializable {
    public long ts;
    public long key;
    /** The bidder (q7) or the type of the event (ysb). */
    public long extra;
    /** The value, or the price (q7). */
    public double value;

    void set(Event from) {
        ts = from.ts;
        key = from.key;
        extra = from.extra;
        value = from.value;
    }

    public static final class Type extends TypeInformation<Event> {
        public boolean isBasicType() { return false; }
        public boolean isTupleType() { return false; }
        public boolean isKeyType() { return false; }
        public int getArity() { return 1; }
        public int getTotalFields() { return 1; }
        public Class<Event> getTypeClass() { return Event.class; }
        public TypeSerializer<Event> createSerializer(SerializerConfig config) { return Serializer.INSTANCE; }
        public String toString() { return "Event"; }
        public boolean equals(Object other) { return other instanceof Type; }
        public int hashCode() { return 1; }
        public boolean canEqual(Object other) { return other instanceof Type; }
    }

    public static final class Serializer extends TypeSerializerSingleton<Event> {
        static final Serializer INSTANCE = new Serializer();

        public boolean isImmutableType() { return false; }
        public Event createInstance() { return new Event(); }
        public int getLength() { return 32; }
        public Event copy(Event from) { return copy(from, new Event()); }

        public Event copy(Event from, Event to) {
            to.set(from);
            return to;
        }

        public void serialize(Event event, DataOutputView out) throws IOException {
            out.writeLong(event.ts);
            out.writeLong(event.key);
            out.writeLong(event.extra);
            out.writeDouble(event.value);
        }

        public Event deserialize(DataInputView in) throws IOException { return deserialize(new Event(), in); }

        public Event deserialize(Event event, DataInputView in) throws IOException {
            event.ts = in.readLong();
            event.key = in.readLong();
            event.extra = in.readLong();
            event.value = in.readDouble();
            return event;
        }

        public void copy(DataInputView from, DataOutputView to) throws IOException { to.write(from, 32); }
        public TypeSerializerSnapshot<Event> snapshotConfiguration() { return new Snapshot(); }
    }

    public static final class Snapshot extends SimpleTypeSerializerSnapshot<Event> {
        public Snapshot() { super(() -> Serializer.INSTANCE); }
    }
}
