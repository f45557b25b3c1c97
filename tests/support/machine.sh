#!/usr/bin/env bash
# The first process of a test machine: an own root (an overlay over this one, writes go to memory), own /tmp, processes,
# name and users; sshd listens on its address. Arguments: name, address, work folder, shared folder, read-only folders.
set -eu
name=$1 address=$2 work=$3 shared=$4
shift 4
new=$work/root

mount -t tmpfs -o size=8g machine "$work"
mkdir "$work/upper" "$work/scratch" "$new"
cp "${work%/*}/key.pub" "$work/key.pub"
mount -t overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/scratch" machine "$new"
mount -t proc proc "$new/proc"
mount -t sysfs sysfs "$new/sys"
# A machine sees how often its CPU was at its limit, and cannot change the limit. The /sys of a network namespace has no
# groups, so they are mounted anew (version 1, as the limit is).
if grep -q '^cpu[[:space:]]*[1-9]' /proc/cgroups; then
    mount -t tmpfs -o mode=755 cgroups "$new/sys/fs/cgroup"
    mkdir "$new/sys/fs/cgroup/cpu"
    mount -t cgroup -o cpu,ro cgroup "$new/sys/fs/cgroup/cpu"
fi
mount -t tmpfs -o mode=755 devices "$new/dev"
for device in null zero full random urandom tty; do
    touch "$new/dev/$device"
    mount --bind "/dev/$device" "$new/dev/$device"
done
mkdir "$new/dev/pts" "$new/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$new/dev/pts"
ln -s pts/ptmx "$new/dev/ptmx"
for link in fd:fd stdin:fd/0 stdout:fd/1 stderr:fd/2; do
    ln -s "/proc/self/${link#*:}" "$new/dev/${link%%:*}"
done
mount -t tmpfs -o size=2g,mode=1777 shm "$new/dev/shm"
mount -t tmpfs -o size=6g,mode=1777 tmp "$new/tmp"
mount -t tmpfs run "$new/run"
for folder in "$@"; do
    mkdir -p "$new$folder"
    mount --bind "$folder" "$new$folder"
    mount -o remount,bind,ro "$new$folder"
done
mkdir -p "$new/shared" "$new/old"
mount --bind "$shared" "$new/shared"
mv "$work/key.pub" "$new/key.pub"
cd "$new"
pivot_root . old
umount -l /old
cd /

hostname "$name"
printf '127.0.0.1 localhost\n%s %s\n' "$address" "$name" > /etc/hosts
ip link set lo up
chmod 755 /root  # the Python of the tests may live there
id ray >/dev/null 2>&1 || useradd --create-home --uid 2000 --shell /bin/bash ray
usermod -p '*' ray  # without PAM, sshd refuses accounts that are locked
install -d -m 700 -o ray -g ray /home/ray/.ssh
install -m 600 -o ray -g ray /key.pub /home/ray/.ssh/authorized_keys
mkdir -p /run/sshd
/usr/sbin/sshd -D -e -o "ListenAddress=$address" -o UsePAM=no -o PasswordAuthentication=no -o MaxStartups=200 \
    -o MaxSessions=100 -o "SetEnv=PYTHONPATH=$PYTHONPATH DECOPA_CACHE_DIR=/home/ray/.cache/decopa" \
    -o PidFile=/run/sshd.pid 2>/var/log/sshd.log &
while :; do
    wait -n || true
    sleep 0.1
done
