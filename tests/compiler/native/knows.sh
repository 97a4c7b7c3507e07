# A compiler that knows no flags for a processor except $KNOWN.
[ "$1" = --version ] && { echo "Apple clang version 14.0.0"; exit 0; }
for word in "$@"; do
    shift
    case $word in
    -march=*|-mcpu=*) case " $KNOWN " in
        *" $word "*) ;;
        *) echo "does not support '$word'" >&2; exit 1 ;;
        esac ;;
    *) set -- "$@" "$word" ;;
    esac
done
exec $REAL "$@"
