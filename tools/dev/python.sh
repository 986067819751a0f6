# builds the Python package 'baechi', puts it with baechi_torch into the user's folder of packages, runs its examples
# wheel [FOLDER]: a wheel of the package with the program, its data and the shared libraries [build/python]
folder=$(realpath -m "${2:-$(dirname "${BASH_SOURCE[0]}")/../../build/python}")
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"; cd "$root"
if [[ ${1:-} == wheel ]]; then
  build_python
  exec "$python" python/wheel.py build/python "$folder"
elif [[ $# -gt 0 ]]; then
  echo "./dev python, or: ./dev python wheel [FOLDER]" >&2
  exit 2
fi
build_python
site=$("$python" -m site --user-site)
rm -f "$site"/baechi.*.so
mkdir -p "$site/baechi_data/share"
cp -r python/package/. tools/baechi_*.py "$site/"
for module in build/python/baechi.*.so; do cp "$module" "$site/baechi/__init__${module#build/python/baechi}"; done
ln -sfn "$root/build/python" "$site/baechi_data/bin"
ln -sfn "$root" "$site/baechi_data/share/baechi-sim"  # where the package looks for its data
"$python" -c 'import numpy' 2>/dev/null ||
  echo "$python has no NumPy: results are memoryviews there, which numpy.asarray takes" >&2
for example in "$root"/python/examples/*.py; do
  echo "== ${example#"$root"/}"
  (cd / && "$python" "$example")
done
echo "$python finds baechi and baechi_torch in $site, from any folder; 'rm -r $site/baechi*' removes them"
