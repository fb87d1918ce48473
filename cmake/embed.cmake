# cmake -DOUT=x.cc -DROOT=dir -DFILES=a;b -P embed.cmake
#   Writes a C++ source with the bytes of files: the table that src/server/page_assets.cc serves.
set(tables "")
set(rows "")
set(index 0)
foreach(name IN LISTS FILES)
  file(READ "${ROOT}/${name}" hex HEX)
  file(SHA256 "${ROOT}/${name}" hash)
  string(SUBSTRING "${hash}" 0 16 hash)
  string(LENGTH "${hex}" n_digits)
  math(EXPR n_bytes "${n_digits} / 2")
  # Octal escapes take three digits at most, hexadecimal ones all that follow.
  string(REGEX REPLACE "(................................)" "\\1\"\n\"" text "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" text "${text}")
  string(APPEND tables "constexpr char kBytes${index}[] =\n\"${text}\";\n")
  string(APPEND rows "    {\"${name}\", \"\\\"${hash}\\\"\", {kBytes${index}, ${n_bytes}}},\n")
  math(EXPR index "${index} + 1")
endforeach()
file(WRITE "${OUT}.new" "// Made by cmake/embed.cmake.
#include \"server/page_assets.h\"

#include <array>

namespace ft::server {
namespace {

${tables}
constexpr std::array<PageFile, ${index}> kFiles = {{
${rows}}};

}  // namespace

std::span<const PageFile> page_files() noexcept {
  return kFiles;
}

}  // namespace ft::server
")
file(COPY_FILE "${OUT}.new" "${OUT}" ONLY_IF_DIFFERENT)
file(REMOVE "${OUT}.new")
