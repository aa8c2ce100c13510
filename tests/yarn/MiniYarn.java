import java.io.File;
import java.io.FileOutputStream;
import java.io.OutputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/**
 * HDFS and YARN of one node, on loopback: writes core-site.xml and yarn-site.xml into the first folder, keeps its
 * files in the second, prints READY and the URI of HDFS, and ends when its input does.
 */
public class MiniYarn {
    public static void main(String[] folders) throws Exception {
        YarnConfiguration settings = new YarnConfiguration();
        settings.set("hdfs.minidfs.basedir", folders[1] + "/dfs");
        settings.set("yarn.nodemanager.vmem-check-enabled", "false");
        settings.set("yarn.nodemanager.resource.memory-mb", "6144");
        settings.set("yarn.nodemanager.resource.cpu-vcores", "8");
        settings.set("yarn.scheduler.minimum-allocation-mb", "256");
        settings.set("yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", "99.5");
        settings.set("yarn.nodemanager.env-whitelist", "JAVA_HOME,PATH,PYSPARK_PYTHON,LC_ALL");
        settings.setFloat("yarn.scheduler.capacity.maximum-am-resource-percent", 0.9f);
        settings.set("yarn.scheduler.capacity.root.queues", "default");
        settings.set("yarn.scheduler.capacity.root.capacity", "100");
        settings.set("yarn.scheduler.capacity.root.default.capacity", "100");
        settings.set("yarn.scheduler.capacity.root.default.state", "RUNNING");
        MiniDFSCluster files = new MiniDFSCluster.Builder(settings).numDataNodes(1).build();
        MiniYARNCluster yarn = new MiniYARNCluster("daggers", 1, 1, 1);
        yarn.init(settings);
        yarn.start();
        String uri = files.getFileSystem().getUri().toString();
        Configuration written = yarn.getConfig();
        written.set("fs.defaultFS", uri);
        for (String name : new String[] {"core-site.xml", "yarn-site.xml"}) {
            try (OutputStream out = new FileOutputStream(new File(folders[0], name))) {
                written.writeXml(out);
            }
        }
        System.out.println("READY " + uri);
        while (System.in.read() >= 0) {}
        System.exit(0);
    }
}
