package peer;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;

/** The first seed query on Flink SQL: Job BOOTSTRAP_SERVERS TOPIC ROWS_TOPIC REST_PORT; ends with the topic's end. */
public class Job {
  public static void main(String[] args) throws Exception {
    Configuration settings = new Configuration();
    settings.setString("execution.target", "remote");
    settings.setString("rest.address", "localhost");
    settings.setString("rest.port", args[3]);
    settings.setString("parallelism.default", "2");
    settings.setString("table.local-time-zone", "UTC");
    TableEnvironment tables =
        TableEnvironment.create(
            EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(settings).build());
    String kafka = "'connector'='kafka', 'properties.bootstrap.servers'='" + args[0] + "', ";
    // Only the columns that the query uses, as a person who tunes would write it.
    tables.executeSql(
        "CREATE TABLE data_stream (event_timestamp ROW<seconds BIGINT, nanos INT>, status STRING, city_id INT,"
            + " vehicle_type STRING, lat DOUBLE, `long` DOUBLE, rowtime AS TO_TIMESTAMP_LTZ("
            + "event_timestamp.seconds * 1000 + event_timestamp.nanos / 1000000, 3),"
            + " WATERMARK FOR rowtime AS rowtime - INTERVAL '1' SECOND) WITH (" + kafka
            + "'topic'='" + args[1] + "', 'properties.group.id'='flink',"
            + " 'scan.startup.mode'='earliest-offset', 'scan.bounded.mode'='latest-offset',"
            + " 'format'='protobuf', 'protobuf.message-class-name'='bench.v1.BookingLogMessage',"
            + " 'protobuf.ignore-parse-errors'='true')");
    tables.executeSql("CREATE TEMPORARY SYSTEM FUNCTION S2Id AS 'peer.S2Id' LANGUAGE JAVA");
    tables.executeSql(
        "CREATE TABLE found (tag_city_id INT, tag_s2id STRING, tag_vehicle_type STRING,"
            + " num_of_bookings BIGINT, window_timestamp TIMESTAMP(3)) WITH (" + kafka
            + "'topic'='" + args[2] + "', 'format'='json')");
    tables
        .executeSql(
            "INSERT INTO found SELECT city_id, S2Id(lat, `long`, 13), vehicle_type, COUNT(1),"
                + " TUMBLE_END(rowtime, INTERVAL '60' SECOND) FROM data_stream WHERE status = 'COMPLETED'"
                + " GROUP BY TUMBLE(rowtime, INTERVAL '60' SECOND), city_id, S2Id(lat, `long`, 13), vehicle_type")
        .await();
  }
}
