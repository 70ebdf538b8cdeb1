module river

go 1.22
