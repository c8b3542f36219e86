#!/usr/bin/env bash
# bundle.sh BUILD_DIR OUT PYTHON: copies the binaries, the harness and every
# shared library they need outside libc, libstdc++ and torch, so that the folder
# runs on a machine with the same torch version:
#   LD_LIBRARY_PATH=<torch>/lib:OUT/lib OUT/bin/dice ...   (OUT/dice does that)
set -euo pipefail
build=$1 out=$2 python=$3
torch=$("$python" -c 'import importlib.util as u, os; print(os.path.dirname(u.find_spec("torch").origin))')
mkdir -p "$out/bin" "$out/lib" "$out/share"
for b in cli/dice learner/dice-learner actor/dice-actor evaluator/dice-evaluator; do
  cp "$build/$b" "$out/bin/"
done
for extra in "$build"/evaluator/compile/dice-compile-box "$build"/evaluator/sandbox/libdice_jail.so; do
  [ -e "$extra" ] && cp "$extra" "$out/bin/"
done
mkdir -p "$out/share/evaluator"
for d in oracle runner emulate; do cp -r "evaluator/$d" "$out/share/evaluator/"; done
cp -r deploy "$out/share/"
for b in "$out"/bin/*; do
  ldd "$b" | awk '$3 ~ "^/" {print $3}'
done | sort -u | grep -vE "/(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|ld-linux[^/]*)\.so" |
  grep -v "^$torch" | grep -v /nvidia/ | xargs -r -I{} cp -Lu {} "$out/lib/"
cat >"$out/dice" <<'EOF'
#!/usr/bin/env bash
# Runs any binary of the bundle: ./dice train ..., or ./dice-learner by its name.
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
python=${DICE_PYTHON:-python3}
torch=$("$python" -c 'import importlib.util as u, os; print(os.path.dirname(u.find_spec("torch").origin))') ||
  { echo "no torch in $python; set DICE_PYTHON" >&2; exit 3; }
export LD_LIBRARY_PATH=$torch/lib:$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export DICE_PYTHON=$(command -v "$python") DICE_HARNESS_DIR=$here/share
exec "$here/bin/$(basename "$0")" "$@"
EOF
chmod +x "$out/dice"
for b in dice-learner dice-actor dice-evaluator; do ln -sf dice "$out/$b"; done
du -sh "$out" >&2
