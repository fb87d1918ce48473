# register_units(<module> <MACRO> UNITS a b c [FOLDER sub])
#   Adds [sub/]<unit>.cc to ft_<module> and writes <macro>.inc with one MACRO(<unit>) line per unit into the module's
#   binary folder. The registry includes that file twice: once to declare the factories, once to fill its table. So one
#   word in a list registers a unit, without static initialisers that a linker would drop.
function(register_units module macro)
  cmake_parse_arguments(ARG "" "FOLDER" "UNITS" ${ARGN})
  string(TOLOWER ${macro} file)
  set(text "")
  foreach(unit IN LISTS ARG_UNITS)
    string(APPEND text "${macro}(${unit})\n")
    if(ARG_FOLDER)
      target_sources(ft_${module} PRIVATE ${ARG_FOLDER}/${unit}.cc)
    else()
      target_sources(ft_${module} PRIVATE ${unit}.cc)
    endif()
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/generated/${file}.inc CONTENT "${text}" @ONLY)
  target_include_directories(ft_${module} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/generated)
endfunction()
