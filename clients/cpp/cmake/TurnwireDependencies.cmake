# The targets protobuf::libprotobuf and gRPC::grpc++, from their own packages, or from pkg-config where a distribution
# left those out.
find_package(Threads REQUIRED)
find_package(Protobuf CONFIG QUIET)
if(NOT TARGET protobuf::libprotobuf)
  find_package(Protobuf REQUIRED)
endif()
find_package(gRPC CONFIG QUIET)
if(NOT TARGET gRPC::grpc++)
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(TURNWIRE_GRPC REQUIRED IMPORTED_TARGET grpc++)
  add_library(gRPC::grpc++ INTERFACE IMPORTED)
  target_link_libraries(gRPC::grpc++ INTERFACE PkgConfig::TURNWIRE_GRPC)
endif()
