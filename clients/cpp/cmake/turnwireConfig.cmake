include("${CMAKE_CURRENT_LIST_DIR}/TurnwireDependencies.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/turnwire.cmake")
