package forgerun

// CodesForTest is what the SDK knows of canonical codes.
func CodesForTest() (classes map[string]Class, retryable map[string]bool) {
	classes, retryable = map[string]Class{}, map[string]bool{}
	for code, facts := range canonicalCodes {
		classes[code], retryable[code] = facts.class, facts.retryable
	}
	return classes, retryable
}

// OwnCodesForTest leads from ForgeRun's own codes to canonical ones.
func OwnCodesForTest() map[string]string { return ownCodes }
