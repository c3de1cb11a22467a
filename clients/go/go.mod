module github.com/callonce/callonce/clients/go

go 1.26.0
