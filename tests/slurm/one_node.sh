#!/bin/bash
# A Slurm of one node for tests: as root, without systemd, on 127.0.0.1.
#   one_node.sh start FOLDER [PORT]   prints 'export SLURM_CONF=...'
#   one_node.sh stop FOLDER
# Needs munge, slurmctld, slurmd, slurm-client.
set -eu
folder=${2:?name a folder for its state}
port=${3:-16817}
host=$(hostname -s)
export SLURM_CONF=$folder/slurm.conf

start_munge() {
  mkdir -p "$folder/munge"
  head -c 1024 /dev/urandom >"$folder/munge/key"
  chmod 600 "$folder/munge/key"
  chown -R munge: "$folder/munge"
  chmod 711 "$folder/munge"
  setpriv --reuid munge --regid munge --clear-groups munged --socket="$folder/munge/socket" \
    --key-file="$folder/munge/key" --pid-file="$folder/munge/pid" \
    --log-file="$folder/munge/log" --seed-file="$folder/munge/seed"
}

configure() {
  mkdir -p "$folder/state" "$folder/spool" "$folder/log"
  cat >"$SLURM_CONF" <<END
ClusterName=one
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP
END
}

start() {
  mkdir -p "$folder"
  chmod 755 "$folder"
  start_munge
  configure
  slurmctld
  slurmd
  for _ in $(seq 60); do
    sinfo -h -o %T 2>/dev/null | grep -q idle && break
    sleep 0.5
  done
  sinfo -h -o %T | grep -q idle
  echo "export SLURM_CONF=$SLURM_CONF"
}

# Waits until the daemons have ended, because they write to the folder.
stop() {
  local file pid
  for file in "$folder"/slurmd.pid "$folder"/slurmctld.pid "$folder"/munge/pid; do
    [[ -f $file ]] || continue
    pid=$(cat "$file")
    kill "$pid" 2>/dev/null || continue
    for _ in $(seq 100); do
      [[ -d /proc/$pid ]] || break
      sleep 0.1
    done
  done
}

"$1"
