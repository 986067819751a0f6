# [FOLDER]: fetches published inputs from GitHub to FOLDER [../shared], where the tests look (or in BAECHI_SHARED)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
folder=${1:-${BAECHI_SHARED:-$root/../shared}}/data
clone=$(mktemp -d)
trap 'rm -rf "$clone"' EXIT
fetch() {  # NAME COMMIT, of github.com/msr-fiddle
  git init -q "$clone/$1"
  git -C "$clone/$1" fetch -q --depth 1 "https://github.com/msr-fiddle/$1" "$2"
  git -C "$clone/$1" checkout -q FETCH_HEAD
}
mkdir -p "$folder/msr-dnn-partitioning" "$folder/piper" "$folder/pipedream"
fetch dnn-partitioning b207b6ad27a1407d321f1e028cea96d7f2c90e3e
cp -r "$clone"/dnn-partitioning/{LICENSE.txt,human-experts,latency-inputs,throughput-inputs} \
  "$folder/msr-dnn-partitioning/"
fetch piper d7fc8cf91048f4b71dc2f9182fa14ebf720c016e
cp -r "$clone"/piper/{LICENSE.txt,inputs} "$folder/piper/"
fetch pipedream 11c40c015e1b7a8e668363c8521609ad48e287f3
cp "$clone/pipedream/LICENSE.txt" "$folder/pipedream/LICENSE"
for profile in "$clone"/pipedream/profiler/*/profiles/*/graph.txt; do
  name=$(basename "$(dirname "$profile")")
  cp "$profile" "$folder/pipedream/${name}_graph.txt"
done
echo "workloads of Tarnawski et al., Piper and PipeDream (MIT) are in $folder"
[[ $(cd "$folder/../.." && pwd) == $(cd "$root/.." && pwd) && $(basename "$(dirname "$folder")") == shared ]] ||
  echo "tell the tests: export BAECHI_SHARED=$(cd "$folder/.." && pwd)"
