// The sample of a provider is one of those that the conformance suites run over.
#include "../../../native/samples/module/toy_provider.c"
