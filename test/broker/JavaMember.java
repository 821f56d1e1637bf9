import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A member of a group by Java's client, with the strategy `range`. Prints "partition offset" of each message, commits
 * after each poll, and leaves when it gets TERM. With an offset as fourth argument it reads nothing: it sets the group's
 * offset of each partition to this one.
 */
class JavaMember {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        if (arguments.length == 4) {
            offsets(settings, arguments[2], Long.parseLong(arguments[3]));
            return;
        }
        settings.put("group.id", arguments[2]);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor");
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, bytes, bytes);
        CountDownLatch left = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.wakeup();
            try {
                left.await();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }));
        consumer.subscribe(List.of(arguments[1]));
        try {
            while (true) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    System.out.println(record.partition() + " " + record.offset());
                }
                consumer.commitSync();
            }
        } catch (WakeupException e) {
            consumer.close();
            left.countDown();
        }
    }

    private static void offsets(Properties settings, String group, long offset) throws Exception {
        try (Admin admin = Admin.create(settings)) {
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            for (TopicPartition one : admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().keySet()) {
                offsets.put(one, new OffsetAndMetadata(offset));
            }
            admin.alterConsumerGroupOffsets(group, offsets).all().get();
        }
    }
}
