# gRPC 1.51, protobuf 3.21 and abseil 20220623 of the distribution: one shared
# abseil for all three, never mixed with a vendored one.
find_package(Threads REQUIRED)
find_package(Protobuf REQUIRED)
find_package(absl REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_program(DICE_GRPC_PLUGIN grpc_cpp_plugin REQUIRED)
