import com.fasterxml.jackson.databind.*;
import com.fasterxml.jackson.databind.node.*;
import java.io.*;
import java.math.*;
import java.nio.ByteBuffer;
import java.time.*;
import java.util.*;
import org.apache.avro.*;
import org.apache.avro.data.TimeConversions;
import org.apache.avro.generic.*;
import org.apache.avro.io.*;

/**
 * What Apache's own Avro writes values as in unions: test/vectors/avro/README.md. A value of Ruby's may stand for several of
 * Java's (an Integer for an Integer and a Long, a Hash for a Map and a record): the branches of all of them are given.
 */
public class AvroUnions {
  static final ObjectMapper JSON = new ObjectMapper();
  static final GenericData DATA = new GenericData();

  public static void main(String[] args) throws Exception {
    for (Conversion<?> one : List.of(new Conversions.DecimalConversion(), new Conversions.UUIDConversion(),
        new TimeConversions.DateConversion(), new TimeConversions.TimeMillisConversion(),
        new TimeConversions.TimeMicrosConversion(), new TimeConversions.TimestampMillisConversion(),
        new TimeConversions.LocalTimestampMicrosConversion())) DATA.addLogicalTypeConversion(one);
    JsonNode cases = JSON.readTree(new File(args[0]));
    ObjectNode result = JSON.createObjectNode().put("version", Schema.class.getPackage().getImplementationVersion());
    ArrayNode choices = result.putArray("choices");
    for (JsonNode names : cases.get("unions")) {
      ObjectNode taken = choices.addObject();
      ArrayNode branches = JSON.createArrayNode();
      for (JsonNode name : names) branches.add(cases.get("types").get(name.asText()));
      Schema union = new Schema.Parser().parse(branches.toString());
      cases.get("values").fields().forEachRemaining(entry -> {
        TreeSet<Integer> found = choose(union, entry.getValue());
        if (found.isEmpty()) return;
        ArrayNode list = taken.putArray(entry.getKey());
        for (int index : found) list.add(names.get(index));
      });
    }
    System.out.println(JSON.writeValueAsString(result));
  }

  /**
   * The branches of the values for which Java's type is the branch's own. Without one: those of plain numbers and bytes for
   * a logical type (with Avro's conversions a timestamp is an Instant, so an Integer is none, but a Long is written as one).
   */
  static TreeSet<Integer> choose(Schema union, JsonNode value) {
    TreeSet<Integer> own = new TreeSet<>(), other = new TreeSet<>();
    for (Object datum : meanings(union, value)) {
      int index;
      try {
        index = DATA.resolveUnion(union, datum);
        new GenericDatumWriter<Object>(union, DATA).write(datum, EncoderFactory.get().directBinaryEncoder(new ByteArrayOutputStream(), null));
      } catch (AvroRuntimeException | ClassCastException | NullPointerException | IOException e) {
        continue;
      }
      LogicalType logical = union.getTypes().get(index).getLogicalType();
      Conversion<?> conversion = logical == null ? null : DATA.getConversionFor(logical);
      boolean text = datum instanceof String; // Ruby's class of a uuid, too
      (conversion == null || text || conversion.getConvertedType().isInstance(datum) ? own : other).add(index);
    }
    return own.isEmpty() ? other : own;
  }

  /** All that the value may be in Java. */
  static List<Object> meanings(Schema union, JsonNode value) {
    List<Object> all = new ArrayList<>();
    if (value.isNull()) all.add(null);
    else if (value.isBoolean()) all.add(value.booleanValue());
    else if (value.isIntegralNumber()) {
      long number = value.longValue();
      if (value.canConvertToInt()) all.add(value.intValue());
      all.add(number);
      for (Schema branch : union.getTypes()) { // Ruby's Integer, for want of a time of day
        String logical = branch.getLogicalType() == null ? "" : branch.getLogicalType().getName();
        long unit = logical.equals("time-millis") ? 1_000_000 : 1_000;
        if (logical.startsWith("time-m") && number >= 0 && number < 86_400_000_000_000L / unit) all.add(LocalTime.ofNanoOfDay(number * unit));
      }
    } else if (value.isNumber()) all.add(value.doubleValue());
    else if (value.isTextual() || value.has("$symbol")) {
      String text = value.isTextual() ? value.asText() : value.get("$symbol").asText();
      all.add(text);
      for (Schema branch : union.getTypes())
        if (branch.getType() == Schema.Type.ENUM && branch.hasEnumSymbol(text)) all.add(new GenericData.EnumSymbol(branch, text));
      try { all.add(UUID.fromString(text)); } catch (IllegalArgumentException e) { /* none */ }
    } else if (value.has("$bytes")) {
      byte[] bytes = new BigInteger("01" + value.get("$bytes").asText(), 16).toByteArray();
      bytes = Arrays.copyOfRange(bytes, 1, bytes.length);
      all.add(ByteBuffer.wrap(bytes));
      for (Schema branch : union.getTypes())
        if (branch.getType() == Schema.Type.FIXED && branch.getFixedSize() == bytes.length) all.add(new GenericData.Fixed(branch, bytes));
    } else if (value.has("$decimal")) {
      BigDecimal decimal = new BigDecimal(value.get("$decimal").asText());
      all.add(decimal.setScale(2)); // as all decimals of the table
    } else if (value.has("$date")) all.add(LocalDate.parse(value.get("$date").asText()));
    else if (value.has("$time")) {
      Instant time = Instant.ofEpochMilli(value.get("$time").longValue());
      all.add(time);
      all.add(LocalDateTime.ofInstant(time, ZoneOffset.UTC));
    } else
      for (Schema branch : union.getTypes()) whole(branch, value).ifPresent(all::add);
    return all;
  }

  /** An array, a map or a record, with parts that the branch takes. */
  static Optional<Object> whole(Schema branch, JsonNode value) {
    try {
      switch (branch.getType()) {
        case ARRAY:
          if (!value.isArray()) return Optional.empty();
          List<Object> list = new ArrayList<>();
          for (JsonNode item : value) list.add(part(branch.getElementType(), item));
          return Optional.of(list);
        case MAP:
          if (!value.isObject()) return Optional.empty();
          Map<String, Object> map = new LinkedHashMap<>();
          value.fields().forEachRemaining(entry -> map.put(entry.getKey(), part(branch.getValueType(), entry.getValue())));
          return Optional.of(map);
        case RECORD:
          if (!value.isObject()) return Optional.empty();
          GenericData.Record record = new GenericData.Record(branch);
          for (Schema.Field field : branch.getFields())
            if (!value.has(field.name()) && field.hasDefaultValue()) record.put(field.pos(), DATA.getDefaultValue(field));
          value.fields().forEachRemaining(entry -> record.put(entry.getKey(), part(branch.getField(entry.getKey()).schema(), entry.getValue())));
          return Optional.of(record); // what is missing is null: the writer says whether that will do
        default:
          return Optional.empty();
      }
    } catch (AvroRuntimeException | NullPointerException e) {
      return Optional.empty(); // another type, or no such field
    }
  }

  static Object part(Schema schema, JsonNode value) {
    if (value.isIntegralNumber() && schema.getType() == Schema.Type.DOUBLE) return value.doubleValue(); // as the writer does
    Schema union = schema.isUnion() ? schema : Schema.createUnion(schema);
    for (Object datum : meanings(union, value)) {
      try {
        DATA.resolveUnion(union, datum);
        return datum;
      } catch (AvroRuntimeException e) { /* the next */ }
    }
    throw new AvroRuntimeException("none");
  }
}
