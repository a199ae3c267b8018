"""Files to classify: more than 400 of more than 60 kinds, the same on every machine, and some that this machine has anyway.

    python examples/filetype/python/corpus.py FOLDER

writes them. Texts are made of templates with different names, lengths and indentation; binary files by Python's standard library, or field by field.
"""

import ast
import bz2
import gzip
import io
import json
import lzma
import marshal
import pickle
import plistlib
import random
import sqlite3
import struct
import sys
import sysconfig
import tarfile
import wave
import zipfile
import zlib
from email.message import EmailMessage
from pathlib import Path

EACH = 6
WORDS = "alpha beacon canvas delta engine filter garden harbor index jungle kernel ladder matrix needle object packet query radius signal table vector window".split()

# The text at the beginning, the repeated text, and the text at the end. NAME, OTHER and NUMBER differ each time.
TEXTS = {
    "py": ("import os\nimport sys\n\n", "def NAME(OTHER, limit=NUMBER):\n    \"\"\"Finds the OTHER.\"\"\"\n    for item in OTHER:\n        if item > limit:\n            return item\n    return None\n\n\n", "if __name__ == '__main__':\n    print(sys.argv)\n"),
    "rs": ("use std::collections::HashMap;\n\n", "/// Finds the OTHER.\npub fn NAME(OTHER: &[u32]) -> Option<u32> {\n    OTHER.iter().copied().find(|item| *item > NUMBER)\n}\n\n", "fn main() {\n    let map: HashMap<String, u32> = HashMap::new();\n    println!(\"{}\", map.len());\n}\n"),
    "c": ("#include <stdio.h>\n#include <stdlib.h>\n\n", "static int NAME(const int *OTHER, size_t count) {\n    for (size_t i = 0; i < count; i++) {\n        if (OTHER[i] > NUMBER) return OTHER[i];\n    }\n    return -1;\n}\n\n", "int main(int argc, char **argv) {\n    printf(\"%d\\n\", argc);\n    return 0;\n}\n"),
    "cpp": ("#include <iostream>\n#include <vector>\n\nnamespace demo {\n\n", "template <typename T>\nclass NAME {\n public:\n  explicit NAME(std::vector<T> OTHER) : OTHER_(std::move(OTHER)) {}\n  T at(size_t i) const { return OTHER_[i] + NUMBER; }\n private:\n  std::vector<T> OTHER_;\n};\n\n", "}  // namespace demo\n\nint main() { std::cout << 1 << std::endl; }\n"),
    "java": ("package org.example.demo;\n\nimport java.util.List;\n\npublic class Main {\n", "    public static int NAME(List<Integer> OTHER) {\n        return OTHER.stream().filter(x -> x > NUMBER).findFirst().orElse(-1);\n    }\n\n", "    public static void main(String[] args) {\n        System.out.println(args.length);\n    }\n}\n"),
    "js": ("'use strict';\nconst fs = require('fs');\n\n", "function NAME(OTHER) {\n  return OTHER.filter((item) => item > NUMBER).map((item) => item * 2);\n}\n\n", "module.exports = { run: () => console.log(fs.readdirSync('.')) };\n"),
    "ts": ("import { readFile } from 'fs/promises';\n\n", "export interface NAMEOptions {\n  readonly OTHER: string;\n  limit?: number;\n}\n\nexport async function NAME(options: NAMEOptions): Promise<number> {\n  return options.limit ?? NUMBER;\n}\n\n", ""),
    "go": ("package main\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\n", "func NAME(OTHER []int) (int, error) {\n\tfor _, item := range OTHER {\n\t\tif item > NUMBER {\n\t\t\treturn item, nil\n\t\t}\n\t}\n\treturn 0, fmt.Errorf(\"no item in %v\", OTHER)\n}\n\n", "func main() {\n\tfmt.Println(os.Args)\n}\n"),
    "rb": ("require 'json'\n\nmodule Demo\n", "  class NAME\n    attr_reader :OTHER\n\n    def initialize(OTHER)\n      @OTHER = OTHER\n    end\n\n    def first\n      @OTHER.find { |item| item > NUMBER }\n    end\n  end\n\n", "end\n\nputs JSON.generate(ARGV)\n"),
    "php": ("<?php\n\nnamespace Demo;\n\n", "function NAME(array $OTHER): ?int\n{\n    foreach ($OTHER as $key => $item) {\n        if ($item > NUMBER) {\n            return $item;\n        }\n    }\n    return null;\n}\n\n", "echo json_encode($argv) . PHP_EOL;\n"),
    "pl": ("#!/usr/bin/perl\nuse strict;\nuse warnings;\n\n", "sub NAME {\n    my ($OTHER) = @_;\n    foreach my $item (@{$OTHER}) {\n        return $item if $item =~ /^\\d+$/ && $item > NUMBER;\n    }\n    return undef;\n}\n\n", "print join(',', @ARGV), \"\\n\";\n"),
    "lua": ("local demo = {}\n\n", "function demo.NAME(OTHER)\n  for index, item in ipairs(OTHER) do\n    if item > NUMBER then\n      return item, index\n    end\n  end\n  return nil\nend\n\n", "return demo\n"),
    "kt": ("package org.example.demo\n\nimport kotlin.math.max\n\n", "data class NAME(val OTHER: List<Int>, val limit: Int = NUMBER) {\n    fun first(): Int? = OTHER.firstOrNull { it > limit }\n}\n\n", "fun main(args: Array<String>) {\n    println(args.joinToString())\n}\n"),
    "scala": ("package org.example.demo\n\nimport scala.collection.mutable\n\n", "case class NAME(OTHER: Seq[Int]) {\n  def first: Option[Int] = OTHER.find(_ > NUMBER)\n}\n\n", "object Main extends App {\n  println(args.mkString(\",\"))\n}\n"),
    "swift": ("import Foundation\n\n", "struct NAME: Codable {\n    let OTHER: [Int]\n\n    func first() -> Int? {\n        guard let item = OTHER.first(where: { $0 > NUMBER }) else { return nil }\n        return item\n    }\n}\n\n", "print(CommandLine.arguments)\n"),
    "hs": ("module Main where\n\nimport qualified Data.Map as Map\nimport Data.Maybe (listToMaybe)\n\n", "NAME :: [Int] -> Maybe Int\nNAME OTHER = listToMaybe [x | x <- OTHER, x > NUMBER]\n\n", "main :: IO ()\nmain = putStrLn \"done\"\n"),
    "ml": ("open Printf\n\n", "let rec NAME OTHER =\n  match OTHER with\n  | [] -> None\n  | item :: rest -> if item > NUMBER then Some item else NAME rest\n\n", "let () = printf \"%d\\n\" (Array.length Sys.argv)\n"),
    "erl": ("-module(demo).\n-export([main/1]).\n\n", "NAME([]) -> none;\nNAME([Item | _]) when Item > NUMBER -> {ok, Item};\nNAME([_ | OTHERs]) -> NAME(OTHERs).\n\n", "main(Args) -> io:format(\"~p~n\", [Args]).\n"),
    "ex": ("defmodule Demo do\n  @moduledoc \"A demo.\"\n\n", "  def NAME(OTHER) do\n    OTHER\n    |> Enum.filter(fn item -> item > NUMBER end)\n    |> List.first()\n  end\n\n", "end\n"),
    "clj": ("(ns demo.core\n  (:require [clojure.string :as str]))\n\n", "(defn NAME\n  \"Finds the OTHER.\"\n  [OTHER]\n  (first (filter #(> % NUMBER) OTHER)))\n\n", "(defn -main [& args] (println (str/join \",\" args)))\n"),
    "lisp": (";;; A demo\n(defpackage :demo (:use :cl))\n(in-package :demo)\n\n", "(defun NAME (OTHER)\n  (loop for item in OTHER\n        when (> item NUMBER) return item))\n\n", ""),
    "jl": ("module Demo\n\nusing LinearAlgebra\n\n", "function NAME(OTHER::Vector{Int})\n    for item in OTHER\n        if item > NUMBER\n            return item\n        end\n    end\n    return nothing\nend\n\n", "end # module\n"),
    "r": ("library(stats)\n\n", "NAME <- function(OTHER, limit = NUMBER) {\n  kept <- OTHER[OTHER > limit]\n  if (length(kept) == 0) return(NULL)\n  data.frame(x = kept, y = mean(kept))\n}\n\n", "print(commandArgs())\n"),
    "m": ("% A demo\nclear all; close all;\n", "function y = NAME(OTHER)\n  x = linspace(0, NUMBER, 100);\n  y = zeros(size(x));\n  for i = 1:length(x)\n    y(i) = sin(x(i)) .* OTHER;\n  end\n  plot(x, y);\nend\n\n", ""),
    "f90": ("program demo\n  implicit none\n  integer :: i\n", "  real, dimension(NUMBER) :: NAME\n  do i = 1, NUMBER\n    NAME(i) = sqrt(real(i))\n  end do\n  write(*, *) 'OTHER', sum(NAME)\n", "end program demo\n"),
    "cs": ("using System;\nusing System.Linq;\n\nnamespace Demo\n{\n", "    public class NAME\n    {\n        private readonly int[] OTHER;\n        public NAME(int[] values) { OTHER = values; }\n        public int? First => OTHER.FirstOrDefault(x => x > NUMBER);\n    }\n\n", "}\n"),
    "dart": ("import 'dart:async';\n\n", "class NAME {\n  final List<int> OTHER;\n  const NAME(this.OTHER);\n\n  Future<int?> first() async {\n    return OTHER.firstWhere((item) => item > NUMBER);\n  }\n}\n\n", "void main(List<String> args) => print(args);\n"),
    "zig": ("const std = @import(\"std\");\n\n", "pub fn NAME(OTHER: []const u32) ?u32 {\n    for (OTHER) |item| {\n        if (item > NUMBER) return item;\n    }\n    return null;\n}\n\n", "pub fn main() !void {\n    std.debug.print(\"done\\n\", .{});\n}\n"),
    "sol": ("// SPDX-License-Identifier: MIT\npragma solidity ^0.8.0;\n\ncontract Demo {\n", "    mapping(address => uint256) public NAME;\n    event OTHERChanged(address indexed owner, uint256 value);\n    function setNAME(uint256 value) external {\n        require(value < NUMBER, \"too much\");\n        NAME[msg.sender] = value;\n    }\n\n", "}\n"),
    "sh": ("#!/bin/sh\nset -eu\n\n", "NAME() {\n  for item in \"$@\"; do\n    if [ \"$item\" -gt NUMBER ]; then\n      echo \"$item\"\n    fi\n  done | sort > OTHER.txt\n}\n\n", "NAME \"$@\"\n"),
    "bat": ("@echo off\nsetlocal enabledelayedexpansion\n\n", "set NAME=NUMBER\nif not exist \"%OTHER%\" (\n  echo missing OTHER\n  goto :eof\n)\ncopy /Y %OTHER% %TEMP%\\NAME.txt > nul\n\n", "endlocal\n"),
    "ps1": ("param([string]$Path = '.')\n\n", "function Get-NAME {\n    [CmdletBinding()]\n    param([int[]]$OTHER)\n    $OTHER | Where-Object { $_ -gt NUMBER } | Select-Object -First 1\n}\n\n", "Write-Output (Get-ChildItem $Path)\n"),
    "awk": ("#!/usr/bin/awk -f\nBEGIN { FS = \",\"; total = 0 }\n", "$1 == \"NAME\" && NF > 2 {\n  OTHER[$2] += $3\n  if ($3 > NUMBER) print NR, $0\n}\n", "END { for (key in count) printf \"%s %d\\n\", key, count[key] }\n"),
    "tcl": ("#!/usr/bin/tclsh\npackage require Tcl 8.6\n\n", "proc NAME {OTHER} {\n    foreach item $OTHER {\n        if {$item > NUMBER} {\n            return $item\n        }\n    }\n    return -1\n}\n\n", "puts [llength $argv]\n"),
    "asm": ("section .text\nglobal _start\n\n_start:\n", "NAME:\n    mov rax, NUMBER\n    lea rdi, [rel OTHER]\n    cmp rax, rdi\n    jne .done\n    push rbp\n    pop rbp\n    ret\n", "section .data\nmessage: db 'hello', 10\n"),
    "v": ("module demo(input clk, input rst, output reg [7:0] out);\n", "  reg [NUMBER:0] NAME;\n  always @(posedge clk or negedge rst) begin\n    if (!rst) NAME <= 8'h00;\n    else NAME <= NAME + 1'b1;\n  end\n  assign OTHER = NAME[0];\n", "endmodule\n"),
    "vhdl": ("library ieee;\nuse ieee.std_logic_1164.all;\n\n", "entity NAME is\n  port (clk : in std_logic; OTHER : out std_logic_vector(7 downto 0));\nend entity NAME;\n\narchitecture rtl of NAME is\nbegin\n  process (clk)\n  begin\n    if rising_edge(clk) then\n      OTHER <= (others => '0');\n    end if;\n  end process;\nend architecture;\n\n", ""),
    "sql": ("BEGIN TRANSACTION;\n", "CREATE TABLE NAME (id INTEGER PRIMARY KEY, OTHER VARCHAR(NUMBER) NOT NULL);\nINSERT INTO NAME (OTHER) VALUES ('one'), ('two');\nSELECT n.id, COUNT(*) FROM NAME n LEFT JOIN other o ON o.id = n.id WHERE n.id > NUMBER GROUP BY n.id ORDER BY 2 DESC;\n", "COMMIT;\n"),
    "html": ("<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>Demo</title></head>\n<body>\n", "<h2 id=\"NAME\">NAME</h2>\n<p class=\"OTHER\">There are <b>NUMBER</b> of <a href=\"#OTHER\">these</a>.</p>\n", "</body>\n</html>\n"),
    "css": ("@charset \"utf-8\";\n:root { --main: #336699; }\n", ".NAME > .OTHER:hover {\n  display: flex;\n  margin: 0 auto NUMBERpx;\n  color: var(--main);\n}\n\n", "@media (max-width: 600px) { body { padding: 0; } }\n"),
    "scss": ("$main: #336699;\n@mixin center { display: flex; align-items: center; }\n\n", ".NAME {\n  @include center;\n  &:hover { color: lighten($main, NUMBER%); }\n  .OTHER { margin: { left: 1px; right: 2px; } }\n}\n\n", ""),
    "xml": ("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<catalog>\n", "  <NAME id=\"NUMBER\">\n    <OTHER kind=\"x\">text &amp; more</OTHER>\n  </NAME>\n", "</catalog>\n"),
    "svg": ("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 100 100\">\n", "  <g id=\"NAME\"><path d=\"M0 0 L NUMBER 20 Z\" fill=\"none\" stroke=\"black\"/><circle cx=\"5\" cy=\"5\" r=\"2\"/></g>\n", "</svg>\n"),
    "md": ("# A demo\n\nSome words about it.\n\n", "## NAME\n\nThe *OTHER* has **NUMBER** parts; see [the list](#OTHER):\n\n- one\n- two\n\n```sh\nmake NAME\n```\n\n", ""),
    "rst": ("====\nDemo\n====\n\n.. contents::\n\n", "NAME\n------------\n\nThe :ref:`OTHER` has ``NUMBER`` parts.\n\n.. code-block:: sh\n\n    make NAME\n\n", ""),
    "tex": ("\\documentclass{article}\n\\usepackage{amsmath}\n\\begin{document}\n", "\\section{NAME}\\label{sec:OTHER}\nLet $x_{NUMBER} = \\sqrt{2}$, as in \\cite{OTHER}.\n\\begin{equation}\n  \\int_0^1 f(x)\\,dx = NUMBER\n\\end{equation}\n", "\\end{document}\n"),
    "bib": ("", "@article{NAMENUMBER,\n  author = {A. OTHER and B. NAME},\n  title = {On the {OTHER}},\n  journal = {Journal of Demos},\n  year = {2001},\n  pages = {1--NUMBER},\n}\n\n", ""),
    "json": ("{\n  \"version\": 3,\n", "  \"NAMENUMBER\": {\"OTHER\": [1, 2.5, null, true], \"text\": \"words\"},\n", "  \"end\": {}\n}\n"),
    "jsonl": ("", "{\"id\": NUMBER, \"NAME\": \"OTHER\", \"values\": [1, 2]}\n", ""),
    "yaml": ("---\nversion: '3'\nservices:\n", "  NAME:\n    image: OTHER:NUMBER\n    ports:\n      - \"8080:80\"\n    environment:\n      KEY: value\n", ""),
    "toml": ("[package]\nname = \"demo\"\nversion = \"0.1.0\"\n\n", "[tool.NAMENUMBER]\nOTHER = { version = \"1.NUMBER\", features = [\"a\", \"b\"] }\nlimit = NUMBER\n\n", ""),
    "ini": ("; settings\n", "[NAME]\nOTHER=NUMBER\npath=C:\\temp\\OTHER\nenabled=yes\n\n", ""),
    "csv": ("id,name,other,value\n", "NUMBER,NAME,OTHER,3.5\n", ""),
    "tsv": ("id\tname\tother\tvalue\n", "NUMBER\tNAME\tOTHER\t3.5\n", ""),
    "txt": ("", "The NAME stood beside the OTHER for NUMBER days, and then it was gone. Of that they spoke in the evening. ", "\n"),
    "diff": ("diff --git a/demo.c b/demo.c\nindex 1234567..89abcde 100644\n--- a/demo.c\n+++ b/demo.c\n", "@@ -NUMBER,3 +NUMBER,4 @@ int NAME(void)\n     int x = 1;\n-    return OTHER;\n+    x += NUMBER;\n+    return x;\n }\n", ""),
    "dockerfile": ("FROM debian:bookworm-slim\n", "RUN apt-get update && apt-get install -y NAME && rm -rf /var/lib/apt/lists/*\nCOPY OTHER /usr/local/bin/\nENV NAME=NUMBER\nEXPOSE NUMBER\n", "ENTRYPOINT [\"/usr/local/bin/demo\"]\n"),
    "makefile": ("CC ?= cc\nCFLAGS := -O2 -Wall\n.PHONY: all clean\nall: demo\n\n", "NAME.o: NAME.c OTHER.h\n\t$(CC) $(CFLAGS) -DLIMIT=NUMBER -c $< -o $@\n\n", "clean:\n\trm -f *.o\n"),
    "cmake": ("cmake_minimum_required(VERSION 3.20)\nproject(demo LANGUAGES C CXX)\n\n", "add_library(NAMENUMBER STATIC OTHER.c)\ntarget_include_directories(NAMENUMBER PUBLIC ${CMAKE_CURRENT_SOURCE_DIR}/include)\ntarget_link_libraries(NAMENUMBER PRIVATE m)\n\n", "install(TARGETS demo DESTINATION bin)\n"),
    "gradle": ("plugins {\n    id 'java'\n}\n\nrepositories { mavenCentral() }\n\ndependencies {\n", "    implementation 'org.NAME:OTHER:1.NUMBER'\n", "}\n\ntest { useJUnitPlatform() }\n"),
    "proto": ("syntax = \"proto3\";\npackage demo;\n\n", "message NAME {\n  string OTHER = 1;\n  repeated int32 values = NUMBER;\n}\n\n", "service Demo { rpc Get(Request) returns (Reply); }\n"),
    "tf": ("terraform {\n  required_version = \">= 1.0\"\n}\n\n", "resource \"aws_instance\" \"NAME\" {\n  ami           = \"ami-NUMBER\"\n  instance_type = \"t3.micro\"\n  tags = { Name = \"OTHER\" }\n}\n\n", ""),
    "eml": None,
    "ics": ("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//demo//EN\r\n", "BEGIN:VEVENT\r\nUID:NUMBER@example.org\r\nDTSTART:20240101T120000Z\r\nSUMMARY:NAME and OTHER\r\nEND:VEVENT\r\n", "END:VCALENDAR\r\n"),
    "srt": ("", "NUMBER\n00:00:01,000 --> 00:00:04,000\nThe NAME and the OTHER.\n\n", ""),
    "vtt": ("WEBVTT\n\n", "00:01.000 --> 00:04.000\nThe NAME and the OTHER, NUMBER.\n\n", ""),
    "po": ("msgid \"\"\nmsgstr \"\"\n\"Content-Type: text/plain; charset=UTF-8\\n\"\n\n", "#: src/NAME.c:NUMBER\nmsgid \"the OTHER\"\nmsgstr \"das OTHER\"\n\n", ""),
    "ps": ("%!PS-Adobe-3.0\n%%BoundingBox: 0 0 200 200\n", "newpath NUMBER 20 moveto 100 100 lineto stroke\n/NAME { OTHER setgray } def\n", "showpage\n%%EOF\n"),
    "ll": ("target triple = \"x86_64-unknown-linux-gnu\"\n\n", "define i32 @NAME(i32 %OTHER) {\nentry:\n  %sum = add nsw i32 %OTHER, NUMBER\n  ret i32 %sum\n}\n\n", ""),
    "prolog": (":- module(demo, [main/0]).\n\n", "NAME(X, [X|_]) :- X > NUMBER, !.\nNAME(X, [_|OTHERs]) :- NAME(X, OTHERs).\n\n", "main :- write(done), nl.\n"),
}


def text(parts, rng):
    head, body, tail = parts
    pieces = [head]
    for _ in range(rng.randint(1, 40)):
        name, other = rng.sample(WORDS, 2)
        pieces.append(body.replace("NAME", name).replace("OTHER", other).replace("NUMBER", str(rng.randint(2, 999))))
    content = "".join([*pieces, tail])
    return content.encode()


def noise(rng, size):
    return rng.randbytes(size)


def smooth(rng, size):
    """Bytes that change slowly, as those of pictures and sounds do."""
    value, result = rng.randrange(256), bytearray()
    for _ in range(size):
        value = (value + rng.randint(-3, 3)) % 256
        result.append(value)
    return bytes(result)


def members(rng):
    return {f"{rng.choice(WORDS)}{number}.txt": text(TEXTS["txt"], rng) for number in range(rng.randint(1, 6))}


def zipped(files, method=zipfile.ZIP_DEFLATED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2024, 1, 1, 0, 0, 0)), content, method)
    return out.getvalue()


def tarred(rng):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in members(rng).items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def png(rng):
    width, height = rng.randint(8, 90), rng.randint(8, 90)

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + smooth(rng, 3 * width) for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def bmp(rng):
    width, height = 4 * rng.randint(4, 20), rng.randint(8, 60)
    pixels = smooth(rng, 3 * width * height)
    head = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, len(pixels), 2835, 2835, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54 + len(pixels), 0, 0, 54) + head + pixels


def gif(rng):
    width, height = rng.randint(8, 90), rng.randint(8, 90)
    blocks = b"".join(bytes([200]) + noise(rng, 200) for _ in range(rng.randint(1, 20)))
    palette = smooth(rng, 3 * 256)
    return b"GIF89a" + struct.pack("<HHBBB", width, height, 0xF7, 0, 0) + palette + b"," + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\x08" + blocks + b"\0;"


def tga(rng):
    width, height = rng.randint(8, 60), rng.randint(8, 60)
    return struct.pack("<BBBHHBHHHHBB", 0, 0, 2, 0, 0, 0, 0, 0, width, height, 24, 0) + smooth(rng, 3 * width * height)


def wav(rng):
    out = io.BytesIO()
    with wave.open(out, "wb") as sound:
        sound.setnchannels(rng.choice([1, 2]))
        sound.setsampwidth(2)
        sound.setframerate(44100)
        sound.writeframes(smooth(rng, 4 * rng.randint(500, 5000)))
    return out.getvalue()


def midi(rng):
    notes = b"".join(bytes([rng.randrange(100), 0x90, rng.randrange(128), 64]) for _ in range(rng.randint(20, 300)))
    track = notes + b"\x00\xff\x2f\x00"
    return b"MThd" + struct.pack(">IHHH", 6, 0, 1, 96) + b"MTrk" + struct.pack(">I", len(track)) + track


def sqlite(rng):
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE TABLE demo (id INTEGER PRIMARY KEY, name TEXT, value REAL)")
        rows = [(rng.choice(WORDS), rng.random()) for _ in range(rng.randint(1, 400))]
        connection.executemany("INSERT INTO demo (name, value) VALUES (?, ?)", rows)
        connection.commit()
        if hasattr(connection, "serialize"):
            return connection.serialize()
        raise NotImplementedError("this Python's sqlite3 cannot serialize")


def npy(rng):
    shape = rng.randint(2, 40), rng.randint(2, 40)
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + head.encode() + noise(rng, 4 * shape[0] * shape[1])


def pyc(rng):
    code = compile(ast.parse(text(TEXTS["py"], rng)), "demo.py", "exec")
    return b"\xa7\r\r\n" + struct.pack("<III", 0, rng.randrange(1 << 30), 100) + marshal.dumps(code)


def pickled(rng):
    rows = [{word: rng.random(), "other": [rng.choice(WORDS)] * 3} for word in rng.sample(WORDS, 10)]
    return pickle.dumps(rows, protocol=rng.choice([2, 3, 4]))


def pdf(rng):
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 >>", "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R >>"]
    stream = zlib.compress(text(("", "BT /F1 NUMBER Tf 72 720 Td (NAME OTHER) Tj ET\n", ""), rng))
    out = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n" + b"".join(f"{n} 0 obj\n{o}\nendobj\n".encode() for n, o in enumerate(objects, 1))
    out += f"4 0 obj\n<< /Length {len(stream)} /Filter /FlateDecode >>\nstream\n".encode() + stream + b"\nendstream\nendobj\n"
    return out + f"xref\n0 5\ntrailer\n<< /Size 5 /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n".encode()


def elf(rng):
    code = noise(rng, rng.randint(200, 4000))
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, 0x400078, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    return head + struct.pack("<IIQQQQQQ", 1, 5, 0, 0x400000, 0x400000, len(code) + 120, len(code) + 120, 4096) + code


def pe(rng):
    stub = b"MZ\x90\0\x03\0\0\0\x04\0\0\0\xff\xff\0\0\xb8".ljust(60, b"\0") + struct.pack("<I", 128)
    stub += b"\x0e\x1f\xba\x0e\0\xb4\t\xcd!\xb8\x01L\xcd!This program cannot be run in DOS mode.\r\r\n$".ljust(64, b"\0")
    head = b"PE\0\0" + struct.pack("<HHIIIHH", 0x8664, 1, 0, 0, 0, 240, 0x22) + struct.pack("<HBBIII", 0x20B, 14, 0, 512, 0, 0)
    return (stub + head).ljust(512, b"\0") + b".text\0\0\0" + noise(rng, rng.randint(300, 4000)) + b"kernel32.dll\0ExitProcess\0"


def macho(rng):
    return struct.pack("<IIIIIIII", 0xFEEDFACF, 0x01000007, 3, 2, 1, 72, 0x85, 0) + struct.pack("<II", 0x19, 72) + b"__TEXT".ljust(64, b"\0") + noise(rng, rng.randint(300, 4000))


def java_class(rng):
    names = [b"java/lang/Object", b"Demo", b"main", b"([Ljava/lang/String;)V", b"Code", *(word.encode() for word in rng.sample(WORDS, 8))]
    pool = b"".join(b"\x01" + struct.pack(">H", len(name)) + name for name in names)
    return b"\xca\xfe\xba\xbe\0\0\0\x34" + struct.pack(">H", len(names) + 1) + pool + noise(rng, rng.randint(50, 800))


def wasm(rng):
    body = noise(rng, rng.randint(30, 2000))
    return b"\0asm\x01\0\0\0" + b"\x01\x07\x01\x60\x02\x7f\x7f\x01\x7f\x03\x02\x01\0\x07\x07\x01\x03add\0\0\x0a" + body


def ar(rng):
    out = b"!<arch>\n"
    for name, content in members(rng).items():
        out += f"{name[:15] + '/':<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode() + content + b"\n" * (len(content) % 2)
    return out


def pcap(rng):
    out = struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    for second in range(rng.randint(5, 60)):
        packet = b"\0\x11\x22\x33\x44\x55\0\x66\x77\x88\x99\xaa\x08\0\x45\0" + noise(rng, rng.randint(40, 100))
        out += struct.pack("<IIII", second, 0, len(packet), len(packet)) + packet
    return out


def email_of(rng):
    message = EmailMessage()
    message["From"], message["To"] = f"{rng.choice(WORDS)}@example.org", "b@example.org"
    message["Subject"], message["Date"] = f"The {rng.choice(WORDS)}", "Mon, 01 Jan 2024 12:00:00 +0000"
    message.set_content(text(TEXTS["txt"], rng).decode())
    return message.as_bytes()


def office(main, kind):
    def make(rng):
        types = f'<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Override PartName="/{main}" ContentType="application/vnd.openxmlformats-officedocument.{kind}.main+xml"/></Types>'
        rels = f'<?xml version="1.0"?><Relationships><Relationship Id="rId1" Target="{main}"/></Relationships>'
        return zipped({"[Content_Types].xml": types, "_rels/.rels": rels, main: text(TEXTS["xml"], rng), "docProps/app.xml": text(TEXTS["xml"], rng)})

    return make


def opendocument(kind):
    def make(rng):
        files = {"mimetype": f"application/vnd.oasis.opendocument.{kind}", "content.xml": text(TEXTS["xml"], rng), "META-INF/manifest.xml": text(TEXTS["xml"], rng)}
        return zipped(files, zipfile.ZIP_STORED)

    return make


def jar(rng):
    return zipped({"META-INF/MANIFEST.MF": "Manifest-Version: 1.0\r\nMain-Class: Demo\r\n", "Demo.class": java_class(rng), "org/example/Other.class": java_class(rng)})


BINARIES = {
    "png": png, "bmp": bmp, "gif": gif, "tga": tga, "wav": wav, "midi": midi, "sqlite": sqlite, "npy": npy, "pyc": pyc, "pickle": pickled, "pdf": pdf,
    "elf": elf, "exe": pe, "macho": macho, "class": java_class, "wasm": wasm, "a": ar, "pcap": pcap, "eml": email_of, "tar": tarred, "jar": jar,
    "docx": office("word/document.xml", "wordprocessingml.document"), "xlsx": office("xl/workbook.xml", "spreadsheetml.sheet"),
    "pptx": office("ppt/presentation.xml", "presentationml.presentation"), "odt": opendocument("text"), "ods": opendocument("spreadsheet"),
    "zip": lambda rng: zipped(members(rng)),
    "gz": lambda rng: gzip.compress(text(TEXTS["txt"], rng), mtime=0),
    "bz2": lambda rng: bz2.compress(text(TEXTS["txt"], rng)),
    "xz": lambda rng: lzma.compress(text(TEXTS["txt"], rng)),
    "zlib": lambda rng: zlib.compress(text(TEXTS["txt"], rng)),
    "bplist": lambda rng: plistlib.dumps({word: rng.random() for word in rng.sample(WORDS, 9)}, fmt=plistlib.FMT_BINARY),
    "plist": lambda rng: plistlib.dumps({word: rng.random() for word in rng.sample(WORDS, 9)}),
    "ipynb": lambda rng: json.dumps({"cells": [{"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": text(TEXTS["py"], rng).decode().splitlines(True)}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1).encode(),
    "bin": lambda rng: noise(rng, rng.randint(100, 9000)),
    "utf16": lambda rng: text(TEXTS["txt"], rng).decode().encode("utf-16"),
    "latin1": lambda rng: text(("", "Über NAME größer als NUMBER, süß. ", ""), rng).decode().encode("latin-1"),
}


def generated():
    """Names and contents. The seed of each is its name."""
    makers = {suffix: (lambda rng, parts=parts: text(parts, rng)) for suffix, parts in TEXTS.items() if parts} | BINARIES
    for suffix, make in sorted(makers.items()):
        for number in range(EACH):
            name = f"demo{number}.{suffix}"
            try:
                yield name, make(random.Random(name))
            except NotImplementedError:
                continue


def of_this_machine(root, most=30):
    """Files of this checkout, of Python and of the system, at most so many of a suffix."""
    folders = [root / "docs", root / "runtime", root / "examples", root / "xtask", Path(sysconfig.get_path("stdlib")), Path("/usr/include"), Path("/usr/share/doc"), Path("/usr/lib/python3")]
    count = {}
    for folder in folders:
        if not folder.is_dir():
            continue
        for file in sorted(folder.glob("*")) + sorted(folder.glob("*/*")):
            if file.is_file() and count.get(file.suffix, 0) < most:
                count[file.suffix] = count.get(file.suffix, 0) + 1
                yield file


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in generated():
        (folder / name).write_bytes(content)
    print(len(list(folder.iterdir())), "files in", folder)
