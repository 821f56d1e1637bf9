import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Where Java's client puts keys: produces each key (hexadecimal, one a line) and prints the partition it went to. */
class JavaPartitions {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        ByteArraySerializer bytes = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, bytes, bytes)) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                byte[] key = HexFormat.of().parseHex(line);
                sent.add(producer.send(new ProducerRecord<>(arguments[1], key, new byte[] {1})));
            }
            producer.flush();
        }
        for (Future<RecordMetadata> one : sent) {
            System.out.println(one.get().partition());
        }
    }
}
