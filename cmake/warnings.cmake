# The one place where warnings are chosen. Link ft_warnings PRIVATE into every target of ours.
add_library(ft_warnings INTERFACE)
target_compile_options(ft_warnings INTERFACE -Wall -Wextra -Wconversion -Wshadow -Wundef)
if(FT_WERROR)
  target_compile_options(ft_warnings INTERFACE -Werror)
endif()
