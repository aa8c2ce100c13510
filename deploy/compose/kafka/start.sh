#!/bin/sh
# Formats the storage at the first start, then becomes the broker. Needs java and /opt/kafka/libs only, so that
# every image of Kafka 4 will do.
set -eu
here=/etc/daggers/kafka
config=/tmp/server.properties
umask 077
password=$(cat /run/daggers/kafka/password)
login="org.apache.kafka.common.security.plain.PlainLoginModule required \
    username=\"daggers\" password=\"$password\" user_daggers=\"$password\";"
{
    cat $here/server.properties
    echo "advertised.listeners=PLATFORM://kafka:9092,HOST://localhost:$KAFKA_PORT,DATA://kafka:9095"
    echo "listener.name.platform.plain.sasl.jaas.config=$login"
    echo "listener.name.controller.plain.sasl.jaas.config=$login"
} >$config
run() { java -Dlog4j2.configurationFile=$here/log4j2.properties -cp '/opt/kafka/libs/*' "$@"; }
if [ ! -f /var/lib/kafka/data/log/meta.properties ]; then
    : >/var/lib/kafka/data/closed
    run kafka.tools.StorageTool format --cluster-id "$(run kafka.tools.StorageTool random-uuid)" \
        --ignore-formatted --config $config
fi
# A volume from before there were rules stays open, as it was, until access.py has written them: who is refused
# meanwhile gives up, and a producer that is idempotent writes never again.
[ -f /var/lib/kafka/data/closed ] || echo "allow.everyone.if.no.acl.found=true" >>$config
exec java -Xms256m -Xmx512m -XX:+ExitOnOutOfMemoryError -Dlog4j2.configurationFile=$here/log4j2.properties \
    -cp '/opt/kafka/libs/*' kafka.Kafka $config
