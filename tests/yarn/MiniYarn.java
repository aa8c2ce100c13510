import java.io.File;
import java.io.FileOutputStream;
import java.io.OutputStream;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/**
 * HDFS and YARN of one node. Writes into the first folder what clients need to know (core-site.xml,
 * yarn-site.xml), keeps its files in the second, and prints READY and the URI of HDFS. The third argument is a
 * variable of its environment that containers get as well.
 *
 * <p>Clients are told addresses and nothing else: the configuration of a mini cluster names classes that only
 * its own class path has.
 */
public class MiniYarn {
    private static final String[] ADDRESSES = {
        YarnConfiguration.RM_ADDRESS, YarnConfiguration.RM_SCHEDULER_ADDRESS, YarnConfiguration.RM_WEBAPP_ADDRESS
    };

    public static void main(String[] arguments) throws Exception {
        YarnConfiguration settings = new YarnConfiguration();
        settings.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, arguments[1] + "/hdfs");
        settings.set("yarn.nodemanager.vmem-check-enabled", "false");
        settings.set("yarn.nodemanager.resource.memory-mb", "6144");
        settings.set("yarn.nodemanager.resource.cpu-vcores", "8");
        settings.set("yarn.scheduler.minimum-allocation-mb", "256");
        settings.set("yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", "99.5");
        settings.set("yarn.nodemanager.env-whitelist", "JAVA_HOME,PATH,PYSPARK_PYTHON,LC_ALL," + arguments[2]);
        settings.set("yarn.scheduler.capacity.maximum-am-resource-percent", "0.9");
        settings.set("yarn.scheduler.capacity.root.queues", "default");
        settings.set("yarn.scheduler.capacity.root.capacity", "100");
        settings.set("yarn.scheduler.capacity.root.default.capacity", "100");
        settings.set("yarn.scheduler.capacity.root.default.state", "RUNNING");
        MiniDFSCluster files = new MiniDFSCluster.Builder(settings).numDataNodes(1).build();
        MiniYARNCluster yarn = new MiniYARNCluster("daggers", 1, 1, 1);
        yarn.init(settings);
        yarn.start();
        String uri = files.getFileSystem().getUri().toString();
        Map<String, String> addresses = new HashMap<>();
        for (String name : ADDRESSES) {
            addresses.put(name, yarn.getConfig().get(name));
        }
        write(new File(arguments[0], "yarn-site.xml"), addresses);
        write(new File(arguments[0], "core-site.xml"), Map.of("fs.defaultFS", uri, "dfs.replication", "1"));
        System.out.println("READY " + uri);
        Thread.currentThread().join();
    }

    private static void write(File file, Map<String, String> properties) throws Exception {
        Configuration site = new Configuration(false);
        properties.forEach(site::set);
        try (OutputStream out = new FileOutputStream(file)) {
            site.writeXml(out);
        }
    }
}
