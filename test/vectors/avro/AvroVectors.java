import java.io.*;
import java.math.*;
import java.nio.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.time.*;
import java.util.*;
import org.apache.avro.*;
import org.apache.avro.generic.*;
import org.apache.avro.io.*;
import org.apache.avro.util.*;

/** What Apache's own Avro makes of schemas and values: test/vectors/avro/README.md. */
public class AvroVectors {
  static final int SEED = 20261122;

  public static void main(String[] args) throws Exception {
    for (String line : Files.readAllLines(Path.of(args[0]))) {
      if (line.isBlank() || line.startsWith("#")) continue;
      String[] parts = line.split(" => ");
      Schema writer = new Schema.Parser().parse(parts[0]);
      Schema reader = parts.length > 1 ? new Schema.Parser().parse(parts[1]) : writer;
      Iterator<Object> data = new RandomData(writer, Integer.parseInt(args[1]), SEED).iterator();
      List<String> documents = new ArrayList<>();
      while (data.hasNext()) documents.add(document(writer, reader, fit(writer, data.next())));
      System.out.println("{\"writer\":" + quote(parts[0]) + (parts.length > 1 ? ",\"reader\":" + quote(parts[1]) : "")
          + ",\"canonical\":" + quote(SchemaNormalization.toParsingForm(writer))
          + ",\"fingerprint\":\"" + Long.toUnsignedString(SchemaNormalization.parsingFingerprint64(writer)) + "\""
          + ",\"documents\":[" + String.join(",", documents) + "]}");
    }
  }

  static String document(Schema writer, Schema reader, Object datum) throws Exception {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(bytes, null);
    new GenericDatumWriter<Object>(writer).write(datum, encoder);
    encoder.flush();
    String value;
    try {
      BinaryDecoder decoder = DecoderFactory.get().binaryDecoder(bytes.toByteArray(), null);
      value = "\"value\":" + show(reader, new GenericDatumReader<Object>(writer, reader).read(null, decoder));
    } catch (AvroRuntimeException e) {
      value = "\"error\":" + quote(String.valueOf(e.getMessage()));
    }
    return "{\"bytes\":\"" + hex(bytes.toByteArray()) + "\"," + value + "}";
  }

  /** Random bytes may be more digits than a decimal's precision, random longs no date: what is written has to mean something. */
  static Object fit(Schema schema, Object datum) {
    LogicalType logical = schema.getLogicalType();
    String type = logical == null ? "" : logical.getName();
    if (type.equals("decimal")) {
      byte[] bytes = datum instanceof GenericFixed ? ((GenericFixed) datum).bytes() : ((ByteBuffer) datum).array();
      BigInteger number = new BigInteger(bytes.length == 0 ? new byte[1] : bytes)
          .mod(BigInteger.TEN.pow(((LogicalTypes.Decimal) logical).getPrecision()));
      if (bytes.length % 2 == 1) number = number.negate();
      byte[] shortest = number.toByteArray();
      if (datum instanceof ByteBuffer) return ByteBuffer.wrap(shortest);
      byte[] padded = new byte[schema.getFixedSize()];
      Arrays.fill(padded, (byte) (number.signum() < 0 ? -1 : 0));
      System.arraycopy(shortest, 0, padded, padded.length - shortest.length, shortest.length);
      return new GenericData.Fixed(schema, padded);
    }
    if (type.equals("uuid") && schema.getType() == Schema.Type.STRING)
      return new UUID(datum.hashCode() * 0x9e3779b97f4a7c15L, datum.toString().length()).toString();
    if (type.equals("date")) return ((Integer) datum) % 3_000_000;
    switch (schema.getType()) {
      case RECORD:
        GenericData.Record record = new GenericData.Record(schema);
        for (Schema.Field field : schema.getFields())
          record.put(field.pos(), fit(field.schema(), ((GenericRecord) datum).get(field.pos())));
        return record;
      case ARRAY:
        List<Object> list = new ArrayList<>();
        for (Object item : (Collection<?>) datum) list.add(fit(schema.getElementType(), item));
        return list;
      case MAP:
        Map<String, Object> map = new LinkedHashMap<>();
        for (Map.Entry<?, ?> entry : ((Map<?, ?>) datum).entrySet())
          map.put(entry.getKey().toString(), fit(schema.getValueType(), entry.getValue()));
        return map;
      case UNION:
        int branch = GenericData.get().resolveUnion(schema, datum);
        return fit(schema.getTypes().get(branch), datum);
      default:
        return datum;
    }
  }

  static String show(Schema schema, Object datum) {
    LogicalType logical = schema.getLogicalType();
    String type = logical == null ? "" : logical.getName();
    switch (schema.getType()) {
      case UNION:
        return show(schema.getTypes().get(GenericData.get().resolveUnion(schema, datum)), datum);
      case RECORD:
        List<String> fields = new ArrayList<>();
        for (Schema.Field field : schema.getFields())
          fields.add(quote(field.name()) + ":" + show(field.schema(), ((GenericRecord) datum).get(field.pos())));
        return "{" + String.join(",", fields) + "}";
      case MAP:
        List<String> pairs = new ArrayList<>();
        for (Map.Entry<?, ?> entry : ((Map<?, ?>) datum).entrySet())
          pairs.add(quote(entry.getKey().toString()) + ":" + show(schema.getValueType(), entry.getValue()));
        return "{" + String.join(",", pairs) + "}";
      case ARRAY:
        List<String> items = new ArrayList<>();
        for (Object item : (Collection<?>) datum) items.add(show(schema.getElementType(), item));
        return "[" + String.join(",", items) + "]";
      case BYTES:
      case FIXED:
        byte[] bytes;
        if (datum instanceof GenericFixed) bytes = ((GenericFixed) datum).bytes();
        else { ByteBuffer buffer = ((ByteBuffer) datum).duplicate(); bytes = new byte[buffer.remaining()]; buffer.get(bytes); }
        if (type.equals("decimal"))
          return "{\"$decimal\":\"" + new BigDecimal(new BigInteger(bytes), ((LogicalTypes.Decimal) logical).getScale()) + "\"}";
        if (type.equals("uuid")) {
          ByteBuffer halves = ByteBuffer.wrap(bytes);
          return quote(new UUID(halves.getLong(), halves.getLong()).toString());
        }
        if ("duration".equals(schema.getProp("logicalType")) && bytes.length == 12) {
          ByteBuffer parts = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
          return "{\"months\":" + (parts.getInt() & 0xffffffffL) + ",\"days\":" + (parts.getInt() & 0xffffffffL)
              + ",\"millis\":" + (parts.getInt() & 0xffffffffL) + "}";
        }
        return "{\"$bytes\":\"" + hex(bytes) + "\"}";
      case INT:
        return type.equals("date") ? "{\"$date\":\"" + LocalDate.ofEpochDay((Integer) datum) + "\"}" : datum.toString();
      case LONG:
        long value = (Long) datum;
        if (type.endsWith("timestamp-millis")) return time(value, 1_000);
        if (type.endsWith("timestamp-micros")) return time(value, 1_000_000);
        if (type.endsWith("timestamp-nanos")) return time(value, 1_000_000_000);
        return datum.toString();
      case FLOAT:
        return "{\"$double\":\"" + hex(Double.doubleToRawLongBits(((Float) datum).doubleValue())) + "\"}";
      case DOUBLE:
        return "{\"$double\":\"" + hex(Double.doubleToRawLongBits((Double) datum)) + "\"}";
      case NULL:
        return "null";
      case BOOLEAN:
        return datum.toString();
      default:
        return quote(datum.toString());
    }
  }

  static String time(long value, long unit) {
    return "{\"$time\":[" + Math.floorDiv(value, unit) + "," + Math.floorMod(value, unit) * (1_000_000_000 / unit) + "]}";
  }

  static String hex(long bits) { return String.format("%016x", bits); }

  static String hex(byte[] bytes) {
    StringBuilder text = new StringBuilder();
    for (byte one : bytes) text.append(String.format("%02x", one));
    return text.toString();
  }

  static String quote(String text) {
    StringBuilder quoted = new StringBuilder("\"");
    for (char one : text.toCharArray()) {
      if (one == '"' || one == '\\') quoted.append('\\').append(one);
      else if (one < 32 || one > 126) quoted.append(String.format("\\u%04x", (int) one));
      else quoted.append(one);
    }
    return quoted.append('"').toString();
  }
}
