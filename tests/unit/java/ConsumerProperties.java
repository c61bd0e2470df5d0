import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.config.ConfigDef;

/** Prints every property of Kafka's Java consumer with its default, one a line, a tab between them. */
public class ConsumerProperties {
    public static void main(String[] arguments) {
        ConsumerConfig.configDef().configKeys().values().stream()
                .sorted((one, other) -> one.name.compareTo(other.name))
                .forEach(key -> System.out.println(key.name + "\t" + text(key)));
    }

    private static String text(ConfigDef.ConfigKey key) {
        return !key.hasDefault() || key.defaultValue == null ? "" : key.defaultValue.toString();
    }
}
