#!/usr/bin/env bash
echo SKIP x: y
