#!/bin/sh
# A daemon of Spark's standalone cluster, from the installed pyspark: spark.sh master.Master|worker.Worker OPTIONS…
# It takes no application, worker or executor that does not know the secret in its properties.
set -eu
JAVA_HOME=/usr/lib/jvm/default-java
SPARK_HOME=$(python -c 'import importlib.util as i; print(i.find_spec("pyspark").submodule_search_locations[0])')
PYSPARK_PYTHON=/opt/daggers/bin/python
export JAVA_HOME SPARK_HOME PYSPARK_PYTHON
class=org.apache.spark.deploy.$1
shift
exec "$SPARK_HOME/bin/spark-class" "$class" --properties-file /run/daggers/spark/properties "$@"
