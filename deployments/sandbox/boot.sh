#!/bin/bash
# Runs as the first process of a host's private mount namespace and stays as its keeper: when it
# ends, the overlay and the loop mount go with it.
# usage: boot.sh NAME FOLDER LOWERDIRS DATA_PATH NETNS CGROUP...
set -euo pipefail
name=$1 folder=$2 lower=$3 data=$4 netns=$5
shift 5
for group; do                       # two nspawns started in one cgroup would share "payload/"
  mkdir -p "$group/redeploy-$name"
  echo $$ >"$group/redeploy-$name/cgroup.procs"
done
mount --make-rprivate /
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$folder/upper,workdir=$folder/work" "$folder/root"
mount -o loop "$folder/data.img" "$folder/data"
mkdir -p /run/systemd/nspawn
mount -t tmpfs tmpfs /run/systemd/nspawn
export SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 SYSTEMD_NSPAWN_TMPFS_TMP=0
status=133                          # what nspawn says, with --keep-unit, of a reboot from inside
while [ "$status" = 133 ]; do
  status=0
  systemd-nspawn --quiet --boot --directory="$folder/root" --bind="$folder/data:$data" \
    --machine="$name" --register=no --keep-unit --console=pipe \
    --network-namespace-path="$netns" --resolv-conf=off --link-journal=no || status=$?
done
exit "$status"
