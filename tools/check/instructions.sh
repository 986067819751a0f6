# instructions per item against bench/instructions.txt: unlike times, they have no noise
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"; cd "$root"
install bench
build release baechi_instructions
over=0
log=$(mktemp)
# One processor: a second thread would take a part of the work that is counted. The second pattern is the thread that
# prepares pieces of a file while others are read.
while read -r name ceiling; do
  items=$(taskset -c 0 valgrind --tool=callgrind --callgrind-out-file=/dev/null \
    --toggle-collect='baechi::bench::measured*' \
    --toggle-collect='std::thread::_State_impl*JsonFile::next_piece*_M_run*' \
    build/release/baechi_instructions "$name" 2>"$log")
  counted=$(awk -v items="$items" '/Collected/ { print int($4 / items) }' "$log")
  echo "$name: $counted, at most $ceiling"
  [[ $counted -le $ceiling ]] || over=1
done <bench/instructions.txt
rm "$log"
exit $over
