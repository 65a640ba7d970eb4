run_on_host() { die "$EXIT_NO_LAB" "not yet"; }
