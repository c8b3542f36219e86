# Core and its text serialiser only: the bundled civetweb server fails in any
# process that links LibTorch (docs/build_facts.md, 4), so HTTP is cpp-httplib.
find_package(prometheus-cpp CONFIG REQUIRED COMPONENTS core)
