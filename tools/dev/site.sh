# FOLDER: the site, from the pages, notebooks, examples and help; FOLDER/index.html opens without network; checks links
if [[ $# -ne 1 ]]; then
  echo "./dev site FOLDER" >&2
  exit 2
fi
folder=$(realpath -m "$1")
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"; cd "$root"
install site
build release baechi
/usr/bin/python3 packaging/site/site.py build/release/baechi "$folder"
