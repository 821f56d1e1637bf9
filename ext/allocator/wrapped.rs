// The functions of libc that ext/allocator has in place of libc's, for the build scripts that tell the linker.
const WRAPPED: [&str; 8] =
    ["malloc", "calloc", "realloc", "free", "posix_memalign", "strdup", "strndup", "realpath"];
