module github.com/forgerun/forgerun/sdk/go

go 1.22
