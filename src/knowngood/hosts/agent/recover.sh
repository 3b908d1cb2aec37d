#!/bin/sh
# recover.sh [--all] [STATE_DIR]: bring back the files of every transaction that was neither kept nor undone, newest first;
# with --all the kept ones too. POSIX sh and sha256sum only, for a host without Python (recover.py is better: it exchanges,
# this one can only look and rename). Files that somebody else edited are left alone and named; then the exit status is 1.
# Safe to run again.
all=; [ "$1" = --all ] && { all=1; shift; }
st=${1:-$(cd "$(dirname "$0")" && pwd)} || exit 2
[ -d "$st/tx" ] || exit 0
rc=0; tab=$(printf '\t')
h() {
  if [ -f "$1" ] && [ ! -L "$1" ]; then sha256sum < "$1" | cut -d' ' -f1
  elif [ -e "$1" ] || [ -L "$1" ]; then echo other; else echo -; fi
}
drift() { echo "left alone, $2: $1"; bad=1; }
file() {
  now=$(h "$path"); held=$(h "$hold")
  if [ "$now" = "$pre" ]; then
    if [ "$held" = "$post" ] || [ "$held" = "$pre" ]; then rm -f "$hold"
    elif [ "$held" != - ]; then drift "$path" "its other version is kept as $hold"; fi
  elif [ "$now" != "$post" ]; then
    if [ "$held" = "$post" ]; then rm -f "$hold"; echo "edited by somebody else meanwhile: $path"
    else drift "$path" "it was edited by somebody else"; fi
  elif [ "$pre" = - ]; then rm -f "$path" "$hold"
  elif [ "$held" = "$pre" ]; then mv -f "$hold" "$path"
  elif [ "$held" != - ] && [ "$held" != "$post" ]; then
    mv -f "$hold" "$path"; echo "edited by somebody else meanwhile, put back: $path"
  elif [ "$(h "$d/$n.pre")" = "$pre" ]; then
    if [ "$now" != - ]; then cp -p "$path" "$hold"; fi
    cat "$d/$n.pre" > "$hold" && sync && mv -f "$hold" "$path"
  else drift "$path" "its pre-image is lost"; fi
}
bytecode() {  # the original comes back; what the trial compiled is derived and goes
  case $path in *.py) ;; *) return ;; esac
  b=${path##*/}
  for c in "${path%/*}"/__pycache__/"${b%.py}".*.pyc; do
    [ -e "$c" ] && ! grep -q "^park$tab$(h "$c")$tab" "$d/intent.tsv" && rm -f "$c"
  done
}
each() {  # each COMMAND: run it for every entry of $d
  n=0
  while IFS=$tab read -r kind pre post hold path; do "$1"; n=$((n + 1)); done < "$d/intent.tsv"
}
staged() { [ "$hold" != - ] && rm -f "$hold"; }
spare() {  # finish an exchange without the system call
  if [ -e "${hold}x" ]; then if [ -e "$hold" ]; then rm -f "${hold}x"; else mv "${hold}x" "$hold"; fi; fi
}
target() { case $kind in edit | create | remove) spare; file ;; esac; }
parked() { if [ "$kind" = park ] && [ -e "$hold" ]; then mv -f "$hold" "$path"; fi; }
compiled() { case $kind in edit | create | remove) bytecode ;; esac; }
for d in $(ls -r "$st/tx" | grep -v '\.new$'); do
  d=$st/tx/$d
  [ -f "$d/intent.tsv" ] || continue
  s=$(ls "$d" | sed -n 's/^S-//p'); bad=0
  case $s in
    done) continue ;;
    keep) [ -n "$all" ] || continue ;;
  esac
  case $s in commit | keep) mv "$d/S-$s" "$d/S-revert"; sync ;; esac
  case $s in
    intent | '') each staged ;;
    *) each target; each parked; each compiled ;;
  esac
  sync
  grep -E "^(mkdir|cache)$tab" "$d/intent.tsv" | cut -f5 | sort -r | while IFS= read -r made; do
    rmdir "$made" 2>/dev/null
  done
  if [ $bad = 0 ]; then mv "$d/S-"* "$d/S-done" 2>/dev/null || : > "$d/S-done"; rm -f "$d/"*.pre; sync; else rc=1; fi
done
exit $rc
