package peer;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;

/**
 * A query of bench/freshness.py that never ends: LiveJob BOOTSTRAP_SERVERS TOPIC ROWS_TOPIC REST_PORT CASE; returns
 * once it was submitted. As a person who wants fresh rows sets it: rows leave the producer at once.
 */
public class LiveJob {
  private static final String WINDOW = "TUMBLE(rowtime, INTERVAL '60' SECOND)";
  private static final String WINDOW_END = "TUMBLE_END(rowtime, INTERVAL '60' SECOND)";

  public static void main(String[] args) throws Exception {
    Configuration settings = new Configuration();
    settings.setString("execution.target", "remote");
    settings.setString("rest.address", "localhost");
    settings.setString("rest.port", args[3]);
    settings.setString("parallelism.default", "2");
    settings.setString("pipeline.auto-watermark-interval", "200 ms");
    settings.setString("table.local-time-zone", "UTC");
    settings.setString("table.exec.source.idle-timeout", "1 s");
    if (args[4].equals("early")) {
      settings.setString("table.exec.emit.early-fire.enabled", "true");
      settings.setString("table.exec.emit.early-fire.delay", "200 ms");
    }
    TableEnvironment tables =
        TableEnvironment.create(
            EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(settings).build());
    String kafka = "'properties.bootstrap.servers'='" + args[0] + "', ";
    tables.executeSql(
        "CREATE TABLE data_stream (event_timestamp ROW<seconds BIGINT, nanos INT>, order_number STRING,"
            + " status STRING, city_id INT, vehicle_type STRING, lat DOUBLE, `long` DOUBLE,"
            + " rowtime AS TO_TIMESTAMP_LTZ("
            + "event_timestamp.seconds * 1000 + event_timestamp.nanos / 1000000, 3),"
            + " WATERMARK FOR rowtime AS rowtime - INTERVAL '5' SECOND) WITH ('connector'='kafka', " + kafka
            + "'topic'='" + args[1] + "', 'properties.group.id'='flink',"
            + " 'scan.startup.mode'='earliest-offset', 'format'='protobuf',"
            + " 'protobuf.message-class-name'='bench.v1.BookingLogMessage',"
            + " 'protobuf.ignore-parse-errors'='true')");
    tables.executeSql("CREATE TEMPORARY SYSTEM FUNCTION S2Id AS 'peer.S2Id' LANGUAGE JAVA");
    String sink = kafka + "'topic'='" + args[2] + "', 'properties.linger.ms'='0', ";
    String append = " WITH ('connector'='kafka', " + sink + "'format'='json')";
    switch (args[4]) {
      case "final":
        tables.executeSql(
            "CREATE TABLE found (tag_city_id INT, tag_s2id STRING, tag_vehicle_type STRING,"
                + " num_of_bookings BIGINT, window_timestamp TIMESTAMP(3))" + append);
        tables.executeSql(
            "INSERT INTO found SELECT city_id, S2Id(lat, `long`, 13), vehicle_type, COUNT(1), " + WINDOW_END
                + " FROM data_stream WHERE status = 'COMPLETED'"
                + " GROUP BY " + WINDOW + ", city_id, S2Id(lat, `long`, 13), vehicle_type");
        break;
      case "early":
        tables.executeSql(
            "CREATE TABLE found (vehicle_type STRING, records BIGINT, window_timestamp TIMESTAMP(3),"
                + " PRIMARY KEY (vehicle_type, window_timestamp) NOT ENFORCED) WITH ('connector'='upsert-kafka', " + sink
                + "'key.format'='json', 'value.format'='json')");
        tables.executeSql(
            "INSERT INTO found SELECT vehicle_type, COUNT(1), " + WINDOW_END
                + " FROM data_stream GROUP BY " + WINDOW + ", vehicle_type");
        break;
      default:
        tables.executeSql("CREATE TABLE found (event_timestamp TIMESTAMP(3), order_number STRING)" + append);
        tables.executeSql("INSERT INTO found SELECT CAST(rowtime AS TIMESTAMP(3)), order_number FROM data_stream");
    }
  }
}
