# Writes the commit of the checkout into a C++ file, unless the file has this commit already.
# Run in the checkout: cmake -D OUTPUT=commit.cpp -P commit.cmake
execute_process(COMMAND git describe --always --dirty --exclude=* OUTPUT_VARIABLE commit
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit "")
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT [[namespace baechi {
extern const char* const commit;
}

const char* const baechi::commit = "@commit@";
]] @ONLY)
