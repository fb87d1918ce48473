#!/bin/sh
# check_isa_symbols.sh NM OBJECT...: objects compiled for one instruction set must not define symbols that the linker
# may share with other files (weak or unique), or a processor without it could be given their code.
nm=$1
shift
status=0
for object in "$@"; do
  case $object in
    */cpu/avx*/kernels.cc.o | */cpu/neon/kernels.cc.o) continue ;;
    */cpu/avx2/* | */cpu/avx512/* | */cpu/neon/*) ;;
    *) continue ;;
  esac
  isa=$(basename "$(dirname "$object")")
  # DW.ref.* only names the exception personality.
  shared=$("$nm" -C --defined-only "$object" | awk '$2 ~ /[WVu]/' | grep -v -e "ft::kernels::$isa::" -e ' DW\.ref\.')
  if [ -n "$shared" ]; then
    echo "$object shares with other files:"
    echo "$shared"
    status=1
  fi
done
exit $status
