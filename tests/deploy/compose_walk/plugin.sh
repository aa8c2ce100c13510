#!/bin/bash
# Compose's plugin for the engine's client, from its Go module: plugin.sh WORK. About 8 min of 2 cores, once.
set -eu
work=$(realpath "$1")
plugin=$work/config/cli-plugins/docker-compose
[ ! -x "$plugin" ] || exit 0
version=${COMPOSE:-v2.40.3}
module=github.com/docker/compose/v2
export GOPATH=$work/go GOCACHE=$work/go/cache GOFLAGS="-p=2 -modcacherw"
mkdir -p "$work/src" "$(dirname "$plugin")"
cd "$work"
go mod download $module@"$version"
[ -d src/compose ] || cp -r "$GOPATH/pkg/mod/$module@$version" src/compose
chmod -R u+w src/compose
cd src/compose
nice go build -ldflags "-s -w -X $module/internal.Version=$version" -o "$plugin" ./cmd
